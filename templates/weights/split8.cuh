// A 16-bit parameter, and its rounding error in 127ths of half an ulp: 24 bits in total (FlashOptim's error
// correction, github.com/databricks/flashoptim). A parameter that is not finite has no error.   for: bfloat16, float16
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::weights::split8 {

// x * 2^n for n in [-134, 134], in two steps, because 2^n may not be a normal number.
KHD float times_power(float x, int n) {
  const int half = n / 2;
  return x * float_of(static_cast<uint32>(127 + half) << 23) *
         float_of(static_cast<uint32>(127 + n - half) << 23);
}

template <class Format>
struct Ulp;
template <>
struct Ulp<BFloat16> {
  static constexpr int mantissa = 7, bias = 127;
};
template <>
struct Ulp<Float16> {
  static constexpr int mantissa = 10, bias = 15;
};

template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = uint8;  // a signed number, in two's complement
  using FormatUlp = Ulp<Format>;
  static constexpr bool random = false;

  // Half an ulp of a stored value is 2 to this power.
  KHD static int half_ulp_exponent(typename Format::Bits bits) {
    const int exponent = static_cast<int>(bits & 0x7fffu) >> FormatUlp::mantissa;
    return max(exponent, 1) - FormatUlp::bias - FormatUlp::mantissa - 1;
  }
  KHD static real first(typename Format::Bits bits) { return Format::load(bits); }
  KHD static real load(typename Format::Bits bits, Residual error) {
    const auto q = static_cast<float>((error ^ 0x80) - 0x80);
    return Format::load(bits) + times_power(q / 127, half_ulp_exponent(bits));
  }
  KHD static typename Format::Bits store(real x, uint32, Residual& error) {
    const typename Format::Bits bits = Format::store(x);
    const float p = Format::load(bits);
    const float share = times_power(chosen(is_finite(p), x - p, 0.0f), -half_ulp_exponent(bits));
    const float size = unit_clamped(abs(share)) * 127;
    const int whole = static_cast<int>(size);
    const int q = whole + (size - static_cast<float>(whole) >= 0.5f ? 1 : 0);
    const int sign = static_cast<int>(bits_of(share)) >> 31;  // 0 or -1
    error = static_cast<Residual>((q ^ sign) - sign);
    return bits;
  }
};

}  // namespace jitstep::weights::split8
