// COAT's 8-bit state (arXiv 2410.19313): E4M3 of a power of each magnitude. Each block has its own exponent, which
// expands its range to the format's. Only zero is stored as zero. COAT also stores the center of the range, which
// cancels, and gives NaN for a block of equal magnitudes. Here the exponent is at most 64 instead. A value that is
// not finite is stored as NaN. stochastic selects stochastic rounding.
#pragma once
#include "../lang/elementary.cuh"
#include "support/absmax.cuh"

namespace jitstep::codecs::fp8_expanded {

struct Options {
  int block = 128;          // power of two in [32, 1024]
  bool stochastic = false;  //
};
using Code = uint8;
struct Meta {
  float scale;  // largest magnitude
  float power;  // exponent of magnitudes divided by the scale
};
// What `encode` needs in addition to the stored metadata.
struct Measured : Meta {
  float inverse;
};

// y^power for y in [0, 1].
KHD float power_of_unit(float y, float power) {
  return chosen(y >= 0x1p-126f, exp2_of_element(power * log2_of_element(y)), 0.0f);
}

template <class Sign, Options O>
struct Codec {
  using Code = fp8_expanded::Code;
  using Meta = fp8_expanded::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 2;
  static constexpr bool random = O.stochastic;
  static constexpr bool has_assembly = kHas8Bits;
  static constexpr float kLargest = 448;
  static constexpr float kRange = 0x1.09d5dap+4f;  // log2(448 * 448 / 2)
  static constexpr float kMostPower = 64, kSteps = 16;
  static constexpr int kNotFinite = 0x7f, kLargestCode = 0x7e;

  // Key 0: the largest magnitude. Key 1: the smallest nonzero one, as infinity's bits minus its bits.
  KHD static uint32 key(real x, int n) {
    const uint32 magnitude = magnitude_key(static_cast<float>(x));
    return n == 0 || magnitude == 0 ? magnitude : 0x7f800000u - magnitude;
  }
  KHD static Measured measure(const uint32 (&key)[2]) {
    const float most = float_of(key[0]), inverse = inverse_of({most});
    const float ratio = float_of(0x7f800000u - key[1]) * inverse;  // smallest to largest, at most 1
    const float wanted = kRange / max(-log2_of_element(max(ratio, 0x1p-126f)), kRange / kMostPower);
    return {{most, static_cast<float>(static_cast<int>(wanted * kSteps)) / kSteps}, inverse};
  }
  // Divided by the scale.
  KHD static float magnitude_of(uint32 code, float power) {
    return power_of_unit(e4m3_to_float(static_cast<uint8>(code)) * (1 / kLargest), 1 / power);
  }
  KHD static real decode(Code code, const Meta& meta) {
    const uint32 magnitude = code & 0x7fu, sign = static_cast<uint32>(code & 0x80u) << 24;
    const uint32 nan = magnitude == kNotFinite ? 0x7fc00000u : 0;
    return scaled(float_of(bits_of(magnitude_of(magnitude, meta.power)) | sign | nan),
                  {meta.scale});
  }
  KHD static int code_of(float y, float power, uint32 random_bits) {
    const int nearest = float_to_e4m3(kLargest * power_of_unit(y, power));
    if constexpr (O.stochastic)
      return stochastic_code(y, nearest, y > 0 ? 1 : 0, kLargestCode, random_bits, [&](int code) {
        return magnitude_of(static_cast<uint32>(code), power);
      });
    else
      return nearest;
  }
  KHD static Code encode(real value, const Measured& measured, uint32 random_bits) {
    const float x = static_cast<float>(value);
    const float size = unit_clamped(abs(x) * measured.inverse);
    const int sign = static_cast<int>(bits_of(x) >> 24 & 0x80u);
    const int code = code_of(size, measured.power, random_bits) | sign;
    return static_cast<Code>(is_finite(x) ? code : kNotFinite);
  }
};

}  // namespace jitstep::codecs::fp8_expanded
