// Block-scaled 4-bit state (arXiv 2309.01507; torchao, lpmm): dynamic-exponent values for a signed slot, (i + 1) / 16
// for a non-negative one, so it is never zero. It rounds to nearest, ties to the larger value. Two codes share a
// byte, the even element in the low half. A signed slot has no code for -1. So a block whose largest magnitude is
// negative shrinks by up to a ninth at each encoding, until its largest value is positive. With signed_scale it does
// not. stochastic selects stochastic rounding. Its mean is exact, except below the least code: a sixteenth of the scale
// in a non-negative slot, -0.8875 of it in a signed one.
#pragma once
#include "support/codebook.cuh"

namespace jitstep::codecs::int4 {

struct Options {
  int block = 128;            // power of two in [32, 1024]
  bool signed_scale = false;
  bool stochastic = false;
};
using Code = Nibble;
struct Meta {
  float scale;
};

template <Options O>
inline constexpr Ways kWays = {
    .block = O.block, .signed_scale = O.signed_scale, .stochastic = O.stochastic};

template <class Sign, Options O>
struct Codec : CodebookCodec<Sign, SignedCodebook<4>, Meta, kWays<O>> {
  using Code = int4::Code;
  static constexpr bool random = O.stochastic;
};

template <Options O>
struct Codec<NonNegative, O> : AbsmaxBlock<Meta, kWays<O>> {
  using Code = int4::Code;
  using B = AbsmaxBlock<Meta, kWays<O>>;
  static constexpr bool is_signed = false, quick = B::plain;

  KHD static real decode(uint8 code, const Meta& meta) {
    return B::value_of(Sixteenths::value(code), meta);
  }
  KHD static uint8 encode(real x, const typename B::Measured& measured, uint32 random_bits) {
    const int code = Sixteenths::code<O.stochastic>(B::normalize(x, measured), random_bits);
    return static_cast<uint8>(is_finite(static_cast<float>(x)) ? code : Sixteenths::not_finite);
  }
  KHD static uint8 quick_code(real x, const typename B::Measured& measured, auto&&) {
    return static_cast<uint8>(static_cast<int>(B::normalize(x, measured) * 16 - 0.5f));
  }
};

}  // namespace jitstep::codecs::int4
