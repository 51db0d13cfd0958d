// Blocks scaled by their largest finite magnitude.
#pragma once
#include "../../lang/contract.cuh"

namespace jitstep {

struct Scale {
  float scale;
};

// Non-negative floats have the same order as their bits. The key of a value that is not finite is 0.
KHD uint32 magnitude_key(float x) {
  const uint32 magnitude = bits_of(x) & 0x7fffffffu;
  return magnitude & (0u - static_cast<uint32>(magnitude < 0x7f800000u));
}

// The factor that maps x to [-1, 1]. It is 0 for a scale that is too small to divide by.
KHD float inverse_of(const Scale& s) { return s.scale >= 0x1p-126f ? 1 / s.scale : 0.0f; }

// fma with +0, because a negative code in a block of zeros would otherwise give -0.
KHD float scaled(float value, const Scale& s) { return fma(value, s.scale, 0.0f); }

// Stochastic rounding of y to the code of the value below or above it. The mean is y, to 2^-17 of their distance.
// `value` ascends from code `least` to code `most`. A y outside these values gets the first or last code, so the mean
// is not y. `nearest`: the code whose value is nearest to y.
template <class Value>
KHD int stochastic_code(float y, int nearest, int least, int most, uint32 random_bits,
                        Value&& value) {
  const int near = value(nearest) <= y ? nearest : nearest - 1;
  const int below = max(min(near, most - 1), least);
  const float low = value(below), high = value(below + 1);
  const float draw = static_cast<float>(2 * random_bits + 1) * 0x1p-17f;  // in (0, 1)
  return y - low > draw * (high - low) ? below + 1 : below;
}

// How a block's values are encoded.
struct Ways {
  int block;
  bool positive_floor = false;  // a positive value of a non-negative slot is never stored as zero
  bool signed_scale = false;    // the scale has the largest value's sign, so that value becomes 1
  bool stochastic = false;      // stochastic rounding, not to nearest
};

// Base of codecs whose Meta is a scale, and whose codes stand for numbers in [-1, 1].
template <class Meta_, Ways W>
struct AbsmaxBlock {
  using Meta = Meta_;
  struct Measured : Meta {
    float inverse;
  };
  static constexpr int block = W.block;
  static constexpr int keys = 1;
  static constexpr bool random = W.stochastic;

  // Of two values with the same magnitude, the negative one determines the sign.
  KHD static uint32 key(real x, int) {
    const uint32 magnitude = magnitude_key(static_cast<float>(x));
    const uint32 sign = magnitude > 0 && x < 0 ? 1 : 0;
    return W.signed_scale ? magnitude << 1 | sign : magnitude;
  }
  static constexpr bool plain = !W.stochastic && !W.signed_scale;  // it has quick keys
  // The key of x in an ordinary block. There, the maximum of quick keys equals the maximum of keys.
  template <bool is_signed>
  KHD static uint32 quick_key(real x) {
    const uint32 bits = bits_of(static_cast<float>(x));
    return is_signed ? bits & 0x7fffffffu : bits;
  }
  // Whether encoding a block with this quick key needs no exceptions. Its values are finite, and not negative in a
  // non-negative slot. No positive value becomes 0 when it is normalized. A subnormal value is less than half of the
  // least value of a codebook.
  KHD static bool is_ordinary(uint32 key) {
    return key == 0 || (key >= bits_of(0x1p-80f) && key < bits_of(0x1p20f));
  }
  KHD static Measured measure(const uint32 (&key)[1]) {
    const float largest = float_of(W.signed_scale ? key[0] >> 1 : key[0]);
    const uint32 sign = W.signed_scale ? key[0] << 31 : 0u;
    return {{float_of(bits_of(largest) | sign)}, float_of(bits_of(inverse_of({largest})) | sign)};
  }

  KHD static float normalize(real x, const Measured& measured) {
    return static_cast<float>(x) * measured.inverse;
  }
  KHD static real value_of(float normalized, const Meta& meta) {
    return scaled(normalized, {meta.scale});
  }
};

}  // namespace jitstep
