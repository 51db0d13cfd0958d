// Block-scaled 8-bit dynamic-exponent state (arXiv 2110.02861; torchao and bitsandbytes): signed and
// unsigned code book, nearest value, ties to the larger one. Ours alone: with positive_floor a
// positive value of a non-negative slot is never coded as zero, which would make the next update
// explode. With signed_scale the value of the largest magnitude comes back exactly if it is negative, too (the book has no
// -1); with stochastic codes are drawn, so that the mean is exact.
#pragma once
#include "../core/codebook.cuh"

namespace jitstep::codecs::int8 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;  //
  bool signed_scale = false;   //
  bool stochastic = false;     //
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

template <Options O>
inline constexpr Ways kWays = {.block = O.block,
                               .positive_floor = O.positive_floor,
                               .signed_scale = O.signed_scale,
                               .stochastic = O.stochastic};

template <class Sign, Options O>
struct Codec : BookCodec<Sign, typename Values<Sign>::Book, Meta, kWays<O>> {
  using Code = int8::Code;
  static constexpr bool random = O.stochastic;
};

}  // namespace jitstep::codecs::int8
