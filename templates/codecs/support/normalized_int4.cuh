// 4-bit codes of values that a codec has divided by a scale, as `int4` has them: dynamic-exponent values for a signed
// slot, (i + 1) / 16 for a non-negative one.
#pragma once
#include "codebook.cuh"

namespace jitstep {

// Encodes a value divided by its scale. The quotient is not finite if the value is not.
template <class Sign, bool stochastic>
struct NormalizedInt4 {
  using Code = Nibble;
  using Meta = NoMeta;
  using Codebook = SignedCodebook<4>;
  static constexpr bool random = stochastic;

  KHD static real value_of(float looked_up, const Meta&) { return looked_up; }
  KHD static int candidate(real y, const Meta&) {
    return Codebook::candidate(static_cast<float>(y));
  }
  KHD static uint8 code_of(real value, const Meta&, int candidate, float threshold,
                           uint32 random_bits = 0) {
    const float y = static_cast<float>(value);
    const int code = code_in_codebook<Codebook, stochastic>(y, candidate, threshold, random_bits);
    return static_cast<uint8>(is_finite(y) ? code : Codebook::zero);
  }
  KHD static real decode(uint8 code, const Meta&) { return Codebook::values.x[code]; }
  KHD static uint8 encode(real y, const Meta& none, uint32 random_bits) {
    const int near = candidate(y, none);
    return code_of(y, none, near, Codebook::thresholds.x[near], random_bits);
  }
};
template <bool stochastic>
struct NormalizedInt4<NonNegative, stochastic> {
  using Code = Nibble;
  using Meta = NoMeta;
  static constexpr bool random = stochastic;

  KHD static real decode(uint8 code, const Meta&) { return Sixteenths::value(code); }
  KHD static uint8 encode(real value, const Meta&, uint32 random_bits) {
    const float y = static_cast<float>(value);
    const int code = Sixteenths::code<stochastic>(y, random_bits);
    return static_cast<uint8>(is_finite(y) ? code : Sixteenths::not_finite);
  }
};

}  // namespace jitstep
