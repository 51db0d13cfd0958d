// Block-scaled 4-bit state in the values of a table, without a base class.
#pragma once
#include "support/codebook.cuh"

namespace jitstep::codecs::table4 {

struct Options {
  int block = 128;  // power of two in [32, 1024]
};
using Code = Nibble;
struct Meta {
  float scale;
};

struct Values {
  static constexpr Table<16> values = {
      {-1.0f, -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f, -0.09105004f, 0.0f, 0.0795803f,
       0.1609302f, 0.2461123f, 0.33791524f, 0.44070983f, 0.562617f, 0.72295684f, 1.0f}};
  static constexpr Table<16> thresholds = thresholds_of(values);
};

template <class Sign, Options O>
struct Codec {
  using Code = table4::Code;
  using Meta = table4::Meta;
  using Codebook = Values;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;
  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }
  KHD static real value_of(float value, const Meta& meta) { return scaled(value, {meta.scale}); }
  KHD static real decode(uint8 code, const Meta& meta) { return value_of(Values::values.x[code], meta); }
  KHD static int candidate(real x, const Meta& meta) {
    const float y = static_cast<float>(x) * inverse_of({meta.scale});
    int code = 1;
    for (int i = 2; i < 16; ++i) code += y >= Values::thresholds.x[i] ? 1 : 0;
    return code;
  }
  KHD static uint8 code_of(real x, const Meta& meta, int candidate, float threshold) {
    const float y = static_cast<float>(x) * inverse_of({meta.scale});
    const int free = y >= threshold ? candidate : candidate - 1;
    const int code = !kSame<Sign, Signed> && x > 0 ? max(free, 8) : free;
    return static_cast<uint8>(is_finite(static_cast<float>(x)) ? code : kSame<Sign, Signed> ? 7 : 15);
  }
  KHD static uint8 encode(real x, const Meta& meta, uint32) {
    const int near = candidate(x, meta);
    return code_of(x, meta, near, Values::thresholds.x[near]);
  }
};

}  // namespace jitstep::codecs::table4
