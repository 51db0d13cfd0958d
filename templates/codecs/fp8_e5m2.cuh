// Block-scaled 8-bit floats, E5M2: the largest magnitude of a block becomes 57344. To nearest, ties to
// even. Ours alone: a scale is as small as its block, and with positive_floor a positive value of a
// non-negative slot is never coded as zero, which would make the next update explode. What is not finite
// is kept as NaN.
#pragma once
#include "../core/scaled_float8.cuh"

namespace jitstep::codecs::fp8_e5m2 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;  //
};
using Code = uint8;
struct Meta {
  float scale;
};

template <class Sign, Options O>
struct Codec : ScaledFloat8<Sign, E5M2, Meta, O.block, O.positive_floor> {
  using Code = fp8_e5m2::Code;
};

}  // namespace jitstep::codecs::fp8_e5m2
