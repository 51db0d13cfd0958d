// Storage formats of weights, gradients and state. Conversions work on bits, so they are the same on every target.
// A NaN stored in fewer than 32 bits has one bit pattern.
#pragma once
#include "port_gpu.cuh"

namespace jitstep {

// ---- bfloat16 (1-8-7) --------------------------------------------------------------------------

KHD float bf16_to_float(uint16 b) { return float_of(static_cast<uint32>(b) << 16); }

inline constexpr uint32 kNaN16 = 0x7fffu;  // the only NaN of 16 bits, as GPUs make it

KHD uint16 float_to_bf16(float x) {  // to nearest, ties to even
  if constexpr (kHas16Bits) return Instruction::to_bf16(x);
  const uint32 u = bits_of(x);
  const uint32 rounded = u + 0x7fffu + ((u >> 16) & 1u);
  return static_cast<uint16>((x != x ? kNaN16 << 16 : rounded) >> 16);
}

// Stochastic rounding: away from zero with the probability that makes the mean exact. random: 16 uniform bits.
// A fraction above `random` carries. Infinities have no fraction to round. A NaN stays NaN.
KHD uint16 float_to_bf16_stochastic(float x, uint32 random) {
  const uint32 u = bits_of(x);
  const uint32 rounded = u + (random ^ 0xffffu);
  return static_cast<uint16>((x != x ? kNaN16 << 16 : rounded) >> 16);
}

// ---- formats with fewer exponents than float ---------------------------------------------------
// Magnitudes as bits without a sign: Mantissa bits of fraction, exponent Bias for 1.0. Exponent 0 has the
// subnormal numbers. Each format defines the meaning of its largest exponent.

template <int Mantissa, int Bias>
KHD uint32 widened_magnitude(uint32 magnitude) {  // returns a float's bits
  const float unit = float_of(static_cast<uint32>(128 - Bias - Mantissa) << 23);
  const float subnormal = static_cast<float>(magnitude) * unit;
  const uint32 normal = (magnitude << (23 - Mantissa)) + (static_cast<uint32>(127 - Bias) << 23);
  return magnitude < 1u << Mantissa ? bits_of(subnormal) : normal;
}

template <int Mantissa, int Bias>
KHD uint32
rounded_magnitude(uint32 magnitude) {  // to nearest, ties to even; if too large, more bits
  constexpr int kLost = 23 - Mantissa;
  constexpr uint32 kLeast = static_cast<uint32>(127 - Bias) << 23;
  const uint32 normal =
      (magnitude - kLeast + (1u << (kLost - 1)) - 1u + ((magnitude >> kLost) & 1u)) >> kLost;
  // Adding this moves the unit of a subnormal number to the last bit of the sum.
  constexpr uint32 kIndex = static_cast<uint32>(151 - Bias - Mantissa) << 23;
  const uint32 subnormal = bits_of(float_of(magnitude) + float_of(kIndex)) - kIndex;
  return magnitude < kLeast + (1u << 23) ? subnormal : normal;
}

// ---- float16 (1-5-10) --------------------------------------------------------------------------

KHD float fp16_to_float(uint16 h) {
  if constexpr (kHas16Bits) return Instruction::from_fp16(h);
  const uint32 magnitude = h & 0x7fffu;
  const uint32 special = magnitude >= 0x7c00u ? 0x38000000u : 0u;  // infinity and NaN
  const uint32 sign = static_cast<uint32>(h & 0x8000u) << 16;
  return float_of((widened_magnitude<10, 15>(magnitude) + special) | sign);
}

KHD uint16 float_to_fp16(float x) {  // to nearest, ties to even
  if constexpr (kHas16Bits) return Instruction::to_fp16(x);
  const uint32 magnitude = bits_of(x) & 0x7fffffffu;
  const uint32 sign = (bits_of(x) >> 16) & 0x8000u;
  const uint32 finite = min(rounded_magnitude<10, 15>(magnitude), 0x7c00u);
  return static_cast<uint16>(magnitude > 0x7f800000u ? kNaN16 : sign | finite);
}

// ---- 8 bits: E4M3 (1-4-3, without infinity) and E5M2 (1-5-2) -----------------------------------
// As in torch 2.13, a value that is too large becomes 448 in E4M3, and so does infinity (older versions: NaN). In E5M2
// values from 61440 become infinity. The only NaN is 0x7f.

KHD float e4m3_to_float(uint8 b) {
  if constexpr (kHas8Bits) return Instruction::from_e4m3(b);
  const uint32 magnitude = b & 0x7fu, sign = static_cast<uint32>(b & 0x80u) << 24;
  const uint32 finite = widened_magnitude<3, 7>(magnitude);
  return float_of(magnitude == 0x7fu ? 0x7fc00000u : finite | sign);
}

KHD uint8 float_to_e4m3(float x) {  // to nearest, ties to even
  if constexpr (kHas8Bits) return Instruction::to_e4m3(x);
  const uint32 magnitude = bits_of(x) & 0x7fffffffu;
  const uint32 sign = (bits_of(x) >> 24) & 0x80u;
  const uint32 finite = min(rounded_magnitude<3, 7>(magnitude), 0x7eu);
  return static_cast<uint8>(magnitude > 0x7f800000u ? 0x7fu : sign | finite);
}

KHD float e5m2_to_float(uint8 b) { return fp16_to_float(static_cast<uint16>(b << 8)); }

inline constexpr float kE5m2Infinite = 61440;  // the least number that becomes infinity

KHD uint8 float_to_e5m2(float x) {  // to nearest, ties to even
  if constexpr (kHas8Bits)
    return static_cast<uint8>(Instruction::to_e5m2(x) + (abs(x) >= kE5m2Infinite ? 1 : 0));
  const uint32 magnitude = bits_of(x) & 0x7fffffffu;
  const uint32 sign = (bits_of(x) >> 24) & 0x80u;
  const uint32 finite = min(rounded_magnitude<2, 15>(magnitude), 0x7cu);
  return static_cast<uint8>(magnitude > 0x7f800000u ? 0x7fu : sign | finite);
}

// ---- slots -------------------------------------------------------------------------------------

// The new value of a slot before any codec stores it: a subnormal number becomes +0. Otherwise a moment with zero
// gradients would end at a few units of the smallest subnormal number and stay there. Processors are many times slower
// with subnormal numbers.
KHD float flush_subnormal(float x) {
  const uint32 normal = (bits_of(x) & 0x7fffffffu) >= 0x00800000u;
  return float_of(bits_of(x) & (0u - normal));
}
KHD double flush_subnormal(double x) {
  const uint64 normal = (bits_of(x) & 0x7fffffffffffffffull) >= 0x0010000000000000ull;
  return double_of(bits_of(x) & (0ull - normal));
}

// ---- the dtypes of weights and gradients -------------------------------------------------------

struct Float64 {
  using Bits = double;
  KHD static double load(Bits b) { return b; }
  KHD static Bits store(double x) { return x; }
};
struct Float32 {
  using Bits = float;
  KHD static float load(Bits b) { return b; }
  KHD static Bits store(float x) { return x; }
};
struct BFloat16 {
  using Bits = uint16;
  KHD static float load(Bits b) { return bf16_to_float(b); }
  KHD static Bits store(float x) { return float_to_bf16(x); }
};
struct Float16 {
  using Bits = uint16;
  KHD static float load(Bits b) { return fp16_to_float(b); }
  KHD static Bits store(float x) { return float_to_fp16(x); }
};

}  // namespace jitstep
