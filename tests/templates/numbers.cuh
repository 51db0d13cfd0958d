// Functions of single numbers, for a GPU and for the CPU. Each result depends on all bits of what is computed. Include
// lang/contract.cuh first.
#pragma once

namespace jitstep {

KHD uint64 joined(uint64 all, uint64 next) { return all * 0x9e3779b97f4a7c15ull + next; }

// The bits of a number, or 1 for any NaN.
template <class T>
KHD uint64 bits_or_nan(T x) {
  return x == x ? static_cast<uint64>(bits_of(x)) : 1;
}

KHD uint64 narrowed(float x) {
  uint64 all = joined(float_to_bf16(x), float_to_fp16(x));
  all = joined(all, float_to_e4m3(x));
  return joined(all, float_to_e5m2(x));
}

KHD uint64 widened(uint32 code) {
  const auto half = static_cast<uint16>(code);
  const auto small = static_cast<uint8>(code);
  uint64 all = joined(bits_or_nan(fp16_to_float(half)), bits_or_nan(bf16_to_float(half)));
  all = joined(all, bits_or_nan(e4m3_to_float(small)));
  return joined(all, bits_or_nan(e5m2_to_float(small)));
}

template <class T>
KHD uint64 computed(int operation, T a, T b, T c) {
  if (operation == 0) return bits_or_nan(fma(a, b, c));
  if (operation == 1) return bits_or_nan(a / b);
  if (operation == 2) return bits_or_nan(sqrt(a));
  if (operation == 3) return bits_or_nan(a * b);
  return bits_or_nan(a + b);
}

#if defined(__CUDACC_RTC__)
using Quick = Ordinary;
#else
using Quick = Ieee;
#endif

// The root and the inverse of an ordinary number, and its quotient by an ordinary divisor. 0 for other numbers.
KHD uint64 computed_quickly(float x) {
  if (!(x > 0x1p-100f && x < 0x1p24f)) return 0;
  const auto mixed = static_cast<uint32>(joined(bits_of(x), 1) >> 32);
  const float divisor = float_of(((mixed >> 24) % 88 + 63) << 23 | (mixed & 0x7fffffu));
  const uint32 inverse = bits_of(Quick::quotient(1.0f, x));
  return joined(bits_of(Quick::root(x)), bits_of(Quick::quotient(x, divisor)) ^ inverse << 7);
}

// In double precision and in float.
KHD uint64 computed_twice(uint32 i, const double* x) {
  const int operation = static_cast<int>(i % 5);
  const auto a = static_cast<float>(x[0]), b = static_cast<float>(x[1]),
             c = static_cast<float>(x[2]);
  return joined(computed(operation, a, b, c), computed(operation, x[0], x[1], x[2]));
}

}  // namespace jitstep
