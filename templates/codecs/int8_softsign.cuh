// FlashOptim's 8-bit state (github.com/databricks/flashoptim): signed values through softsign, non-negative values as
// square roots, in equal steps of the block's largest magnitude. It rounds to nearest, ties to the larger value.
// jitstep's scale has float16's ten bits of fraction over a wider range, 2^-50 to 2^23. The original's scale becomes
// coarse below 6e-5 and zero below 3e-8. With positive_floor, a positive value is never stored as zero. An average with
// a factor above 0.9995, or 0.999 for a second moment, may not decay: ten bits of scale are too few. stochastic selects
// stochastic rounding. Its mean is exact, except for the scale's rounding and values that positive_floor raises.
#pragma once
#include "support/absmax.cuh"

namespace jitstep::codecs::int8_softsign {

struct Options {
  int block = 32;              // power of two in [32, 1024]
  bool positive_floor = true;
  bool stochastic = false;
};
using Code = uint8;
struct Meta {
  uint16 scale;  // 6 bits of exponent, 10 of fraction; no sign, infinity or NaN
};

KHD float scale_of(const Meta& meta) { return float_of(widened_magnitude<10, 41>(meta.scale)); }

// What `encode` needs in addition: the block's exact magnitude. The stored scale has it to ten bits.
struct Measured : Meta {
  float inverse;
};

template <class Sign, Options O>
struct Codec {
  using Code = int8_softsign::Code;
  using Meta = int8_softsign::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = O.stochastic;
  static constexpr bool is_signed = kSame<Sign, Signed>;

  KHD static float bent(real x) {
    const float y = static_cast<float>(x);
    return is_signed ? y : sqrt(y);
  }

  KHD static uint32 key(real x, int) { return magnitude_key(bent(x)); }
  KHD static Measured measure(const uint32 (&key)[1]) {
    const uint32 least = key[0] > 0 ? 1 : 0;
    const uint32 scale = max(least, min(rounded_magnitude<10, 41>(key[0]), 0xffffu));
    const Meta meta{static_cast<uint16>(scale)};
    const bool close = scale >= 0x400u && scale < 0xffffu;
    return {meta, inverse_of({close ? float_of(key[0]) : scale_of(meta)})};
  }

  // Divided by the scale. For a non-negative slot: the square root.
  KHD static float value_of(int code) {
    const float q = static_cast<float>(code);
    return is_signed ? q / (254 - abs(q)) : q / 255;
  }
  KHD static real decode(Code code, const Meta& meta) {
    if constexpr (is_signed) {
      return scaled(value_of(static_cast<signed char>(code)), {scale_of(meta)});
    } else {
      const float root = value_of(code) * scale_of(meta);
      return root * root;
    }
  }

  // Whether y is at least the lower end of a code's interval. This is exact, because only the sign of a fused
  // product matters. With n = 2 code - 1, the end is n / 510, or n / (508 - |n|) with softsign.
  KHD static bool reaches(float y, int code) {
    const float n = static_cast<float>(2 * code - 1);
    return fma(y, is_signed ? 508 - abs(n) : 510.0f, -n) >= 0;
  }

  // Stochastic rounding is unbiased for the values, not for their roots.
  KHD static int draw_code(float y, int nearest, uint32 random_bits) {
    if constexpr (is_signed)
      return stochastic_code(y, nearest, -127, 127, random_bits, value_of);
    else
      return stochastic_code(y * y, nearest, 0, 255, random_bits,
                             [](int code) { return value_of(code) * value_of(code); });
  }

  KHD static Code encode(real value, const Measured& measured, uint32 random_bits) {
    const float x = bent(value);
    const float size = unit_clamped(abs(x) * measured.inverse);
    const bool negative = is_signed && x < 0;
    const int reached = static_cast<int>(is_signed ? 254 * size / (1 + size) : 255 * size);
    const int candidate = negative ? -reached : reached + 1;  // the code, or the next one
    const float y = negative ? -size : size;
    int code = candidate - (reaches(y, candidate) ? 0 : 1);
    if constexpr (O.stochastic) code = draw_code(y, code, random_bits);
    if (!is_signed && O.positive_floor && x > 0 && code == 0) code = 1;
    return static_cast<Code>(is_finite(x) ? code : is_signed ? 0 : 255);
  }
};

}  // namespace jitstep::codecs::int8_softsign
