// Block-scaled 8-bit floats, E5M2: the largest magnitude of a block becomes 57344. To nearest, ties to
// even. Ours alone: a scale is as small as its block, and with positive_floor a positive value of a
// non-negative slot is never coded as zero, which would make the next update explode. What is not finite
// is kept as NaN.
#pragma once
#include "../core/absmax.cuh"

namespace jitstep::codecs::fp8_e5m2 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;  //
};
using Code = uint8;
struct Meta {
  float scale;
};
// What `encode` needs beside what is kept.
struct Measured : Meta {
  float inverse;
};

template <class Sign, Options O>
struct Codec {
  using Code = fp8_e5m2::Code;
  using Meta = fp8_e5m2::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;
  static constexpr bool keeps_positive = O.positive_floor && kSame<Sign, NonNegative>;
  static constexpr float kLargest = 57344;
  static constexpr int kNotFinite = 0x7f;

  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Measured measure(const uint32 (&key)[1]) {
    const float scale = float_of(key[0]) / kLargest;
    return {{scale}, inverse_of({scale})};
  }
  KHD static real decode(Code code, const Meta& meta) {
    return scaled(e5m2_to_float(code), {meta.scale});
  }
  KHD static Code encode(real value, const Measured& measured, uint32) {
    const float x = static_cast<float>(value);
    const int nearest = float_to_e5m2(x * measured.inverse);
    const int code = keeps_positive && x > 0 ? max(nearest, 1) : nearest;
    return static_cast<Code>(is_finite(x) ? code : kNotFinite);
  }
};

}  // namespace jitstep::codecs::fp8_e5m2
