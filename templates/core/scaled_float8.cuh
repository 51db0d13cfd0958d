// Blocks of 8-bit floats whose largest magnitude becomes the largest number of their format.
#pragma once
#include "absmax.cuh"

namespace jitstep {

struct E4M3 {
  static constexpr float largest = 448;
  KHD static float load(uint8 bits) { return e4m3_to_float(bits); }
  KHD static uint8 store(float x) { return float_to_e4m3(x); }
};
struct E5M2 {
  static constexpr float largest = 57344;
  KHD static float load(uint8 bits) { return e5m2_to_float(bits); }
  KHD static uint8 store(float x) { return float_to_e5m2(x); }
};

// positive_floor: a positive value of a non-negative slot is never coded as zero. What is not finite is kept as NaN.
template <class Sign, class Format, class Meta, int Block, bool positive_floor>
struct ScaledFloat8 : AbsmaxBlock<Meta, Block> {
  using B = AbsmaxBlock<Meta, Block>;
  using Measured = typename B::Measured;
  static constexpr int not_finite = 0x7f;

  KHD static Measured measure(const uint32 (&key)[1]) {
    const float scale = float_of(key[0]) / Format::largest;
    return {{scale}, inverse_of({scale})};
  }
  KHD static real decode(uint8 code, const Meta& meta) {
    return B::value_of(Format::load(code), meta);
  }
  KHD static uint8 encode(real value, const Measured& measured, uint32) {
    const int nearest = Format::store(B::in_units(value, measured));
    const bool floored = positive_floor && kSame<Sign, NonNegative> && value > 0;
    const int code = floored ? max(nearest, 1) : nearest;
    return static_cast<uint8>(is_finite(static_cast<float>(value)) ? code : not_finite);
  }
};

}  // namespace jitstep
