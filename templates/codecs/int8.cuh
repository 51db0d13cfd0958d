// Block-scaled 8-bit dynamic-exponent state (arXiv 2110.02861; torchao and bitsandbytes), with a signed and an
// unsigned codebook. It rounds to nearest, ties to the larger value. Unlike the originals, it has positive_floor: a
// positive value of a non-negative slot is never stored as zero, because the next update would divide by eps alone. The
// codebook has no -1, as the originals'. So a block whose largest magnitude is negative shrinks by 0.7 % at each
// encoding, while nothing is added to it. With signed_scale it does not: use it for slow averages. stochastic selects
// stochastic rounding. Its mean is exact, except for values that positive_floor raises or that are below the least
// code.
#pragma once
#include "support/codebook.cuh"

namespace jitstep::codecs::int8 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;
  bool signed_scale = false;
  bool stochastic = false;
};
using Code = uint8;
struct Meta {
  float scale;
};

template <class Sign>
struct Values {
  using Codebook = SignedCodebook<8>;
};
template <>
struct Values<NonNegative> {
  using Codebook = NonNegativeCodebook<8>;
};

template <Options O>
inline constexpr Ways kWays = {.block = O.block,
                               .positive_floor = O.positive_floor,
                               .signed_scale = O.signed_scale,
                               .stochastic = O.stochastic};

template <class Sign, Options O>
struct Codec : CodebookCodec<Sign, typename Values<Sign>::Codebook, Meta, kWays<O>> {
  using Code = int8::Code;
  static constexpr bool random = O.stochastic;
};

}  // namespace jitstep::codecs::int8
