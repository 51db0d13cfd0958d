// Blocks of 8-bit floats. The largest magnitude of a block becomes the largest number of the format.
#pragma once
#include "absmax.cuh"

namespace jitstep {

struct E4M3 {
  static constexpr float largest = 448;
  static constexpr int largest_code = 0x7e;
  static constexpr bool has_assembly = kHas8Bits;
  KHD static float load(uint8 bits) { return e4m3_to_float(bits); }
  KHD static uint8 store(float x) { return float_to_e4m3(x); }
};
struct E5M2 {
  static constexpr float largest = 57344;
  static constexpr int largest_code = 0x7b;
  static constexpr bool has_assembly = kHas16Bits;
  KHD static float load(uint8 bits) { return e5m2_to_float(bits); }
  KHD static uint8 store(float x) { return float_to_e5m2(x); }
};

// A value that is not finite is stored as NaN.
template <class Sign, class Format, class Meta, Ways W>
struct ScaledFloat8 : AbsmaxBlock<Meta, W> {
  using B = AbsmaxBlock<Meta, W>;
  using Measured = typename B::Measured;
  static constexpr int not_finite = 0x7f;
  static constexpr bool has_assembly = requires { requires Format::has_assembly; };

  KHD static Measured measure(const uint32 (&key)[1]) {
    // A subnormal scale would be 0, and so would its inverse. All normal numbers are in the format's range then.
    const float largest = float_of(key[0]);
    const float scale = chosen(largest > 0, max(largest / Format::largest, 0x1p-126f), 0.0f);
    return {{scale}, inverse_of({scale})};
  }
  KHD static real decode(uint8 code, const Meta& meta) {
    return B::value_of(Format::load(code), meta);
  }
  // The code of a number divided by the scale.
  KHD static int code_of(float y, uint32 random_bits) {
    const int nearest = Format::store(y);
    if constexpr (W.stochastic)
      return (nearest & 0x80) |
             stochastic_code(abs(y), nearest & 0x7f, 0, Format::largest_code, random_bits,
                             [](int code) { return Format::load(static_cast<uint8>(code)); });
    else
      return nearest;
  }
  KHD static uint8 encode(real value, const Measured& measured, uint32 random_bits) {
    const int free = code_of(B::normalize(value, measured), random_bits);
    const bool floored = W.positive_floor && kSame<Sign, NonNegative> && value > 0;
    const int code = floored ? max(free, 1) : free;
    return static_cast<uint8>(is_finite(static_cast<float>(value)) ? code : not_finite);
  }
};

}  // namespace jitstep
