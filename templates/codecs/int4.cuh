// Block-scaled 4-bit state (arXiv 2309.01507; torchao, lpmm): dynamic-exponent values for a signed
// slot, (i + 1) / 16 for a non-negative one, which is so never zero. Nearest value, ties to the
// larger one; two codes a byte, the even element in the low half.
#pragma once
#include "../core/codebook.cuh"

namespace jitstep::codecs::int4 {

struct Options {
  int block = 128;  // power of two in [32, 1024]
};
using Code = Nibble;
struct Meta {
  float scale;
};

template <class Sign, Options O>
struct Codec : BookCodec<Sign, SignedBook<4>, Meta, O.block, false> {
  using Code = int4::Code;
};

template <Options O>
struct Codec<NonNegative, O> : AbsmaxBlock<Meta, O.block> {
  using Code = int4::Code;
  using B = AbsmaxBlock<Meta, O.block>;

  KHD static real decode(uint8 code, const Meta& meta) {
    return B::value_of(Sixteenths::value(code), meta);
  }
  KHD static uint8 encode(real x, const typename B::Measured& measured, uint32) {
    const int nearest = Sixteenths::nearest(B::in_units(x, measured));
    return static_cast<uint8>(is_finite(static_cast<float>(x)) ? nearest : Sixteenths::not_finite);
  }
};

}  // namespace jitstep::codecs::int4
