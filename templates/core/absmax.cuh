// Blocks in units of their largest finite magnitude, their scale.
#pragma once
#include "contract.cuh"

namespace jitstep {

struct Scale {
  float scale;
};

// Non-negative floats order as their bits do. A value that is not finite does not count.
KHD uint32 magnitude_key(float x) {
  const uint32 magnitude = bits_of(x) & 0x7fffffffu;
  return magnitude & (0u - static_cast<uint32>(magnitude < 0x7f800000u));
}

// What x is multiplied by to lie in [-1, 1]; 0 for a block too small to be divided by.
KHD float inverse_of(const Scale& s) { return s.scale >= 0x1p-126f ? 1 / s.scale : 0.0f; }

// -0 would otherwise come out of a negative code in a block of zeros.
KHD float scaled(float value, const Scale& s) { return fma(value, s.scale, 0.0f); }

// What codecs share whose Meta is the scale and whose codes stand for numbers in [-1, 1].
template <class Meta_, int Block>
struct AbsmaxBlock {
  using Meta = Meta_;
  struct Measured : Meta {
    float inverse;
  };
  static constexpr int block = Block;
  static constexpr int keys = 1;
  static constexpr bool random = false;

  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Measured measure(const uint32 (&key)[1]) {
    const float scale = float_of(key[0]);
    return {{scale}, inverse_of({scale})};
  }

  KHD static float in_units(real x, const Measured& measured) {
    return static_cast<float>(x) * measured.inverse;
  }
  KHD static real value_of(float in_units, const Meta& meta) {
    return scaled(in_units, {meta.scale});
  }
};

}  // namespace jitstep
