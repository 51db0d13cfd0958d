// float16 state, rounded to nearest even. A value that is too large becomes the largest number. With positive_floor, a
// positive value of a non-negative slot is never stored as zero. Without it, a second moment below 3e-8 becomes
// zero, and the next update divides by eps alone. Steps below 6e-5 have the size 6e-8. So with beta2 = 0.999, a second
// moment below 3e-5 does not decay, and does not grow from gradients below 0.005. Averages with a factor above 0.9998
// never decay.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::fp16 {

struct Options {
  bool positive_floor = true;
};
using Code = uint16;

template <class Sign, Options O>
struct Codec {
  using Code = fp16::Code;
  using Meta = NoMeta;
  using Rounded = Float16;
  static constexpr int block = 1;
  static constexpr bool random = false;
  static constexpr bool keeps_positive = O.positive_floor && kSame<Sign, NonNegative>;

  KHD static real decode(Code code, const Meta&) { return fp16_to_float(code); }
  // Before rounding. `encode` rounds this, if the value is in the format's range.
  KHD static float floored(float x) {
    return keeps_positive ? chosen(x > 0, max(x, 0x1p-24f), x) : x;
  }
  KHD static Code encode(real value, const Meta&, uint32) {
    const float x = static_cast<float>(value);
    const int code = float_to_fp16(x), magnitude = code & 0x7fff;
    const int finite = (code & 0x8000) | min(magnitude, 0x7bff);
    const int floored = keeps_positive && x > 0 ? max(finite, 1) : finite;
    return static_cast<Code>(is_finite(x) ? floored : code);
  }
};

}  // namespace jitstep::codecs::fp16
