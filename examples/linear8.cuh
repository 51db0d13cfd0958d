// Linear 8-bit state: stores each block of elements in 255 equal steps of its largest magnitude. A positive value of a
// non-negative slot becomes at least one step, so that optimizers do not divide by zero.
#pragma once
#include "support/absmax.cuh"

namespace jitstep::codecs::linear8 {

struct Options {
  int block = 128;  // power of two in [32, 1024]
};
using Code = uint8;
struct Meta {
  float scale;
};

template <class Sign, Options O>
struct Codec {
  using Code = linear8::Code;
  using Meta = linear8::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;
  static constexpr int zero = kSame<Sign, Signed> ? 127 : 0;
  static constexpr int steps = kSame<Sign, Signed> ? 127 : 255;

  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }

  KHD static real decode(Code code, const Meta& meta) {
    return scaled(static_cast<float>(code - zero) / steps, {meta.scale});
  }

  KHD static Code encode(real value, const Meta& meta, uint32) {
    const float x = static_cast<float>(value);
    if (!is_finite(x)) return kSame<Sign, Signed> ? zero : 255;
    const float y = abs(x) * inverse_of({meta.scale}) * steps + 0.5f;
    int step = static_cast<int>(min(y, static_cast<float>(steps)));
    if (!kSame<Sign, Signed> && x > 0 && step == 0) step = 1;
    return static_cast<Code>(x < 0 ? zero - step : zero + step);
  }
};

}  // namespace jitstep::codecs::linear8
