// Block-scaled 8-bit dynamic-exponent state (arXiv 2110.02861; torchao and bitsandbytes): signed and
// unsigned code book, nearest value, ties to the larger one. Ours alone: with positive_floor a
// positive value of a non-negative slot is never coded as zero, which would make the next update
// explode.
#pragma once
#include "../core/codebook.cuh"

namespace jitstep::codecs::int8 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;  //
};
using Code = uint8;
struct Meta {
  float scale;
};

template <class Sign>
struct Values {
  using Book = SignedBook<8>;
};
template <>
struct Values<NonNegative> {
  using Book = NonNegativeBook<8>;
};

template <class Sign, Options O>
struct Codec : BookCodec<Sign, typename Values<Sign>::Book, Meta, O.block, O.positive_floor> {
  using Code = int8::Code;
};

}  // namespace jitstep::codecs::int8
