// `int8` with the signed codebook for non-negative slots too, which halves their values (bitsandbytes' one-state
// RMSprop and Adagrad). It rounds to nearest, ties to the larger value. With positive_floor, a positive value of such
// a slot is never stored as zero, because the next update would divide by eps alone. A signed block whose largest
// magnitude is negative shrinks by 0.7 % at each encoding, unless signed_scale is set. signed_scale and stochastic are
// as in `int8`.
#pragma once
#include "support/codebook.cuh"

namespace jitstep::codecs::int8_signed {

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

template <Options O>
inline constexpr Ways kWays = {.block = O.block,
                               .positive_floor = O.positive_floor,
                               .signed_scale = O.signed_scale,
                               .stochastic = O.stochastic};

template <class Sign, Options O>
struct Codec : CodebookCodec<Sign, SignedCodebook<8>, Meta, kWays<O>> {
  using Code = int8_signed::Code;
  static constexpr bool random = O.stochastic;
};

}  // namespace jitstep::codecs::int8_signed
