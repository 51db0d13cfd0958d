// Block-scaled 8-bit floats, E4M3: the largest magnitude of a block becomes 448 (torchao's AdamWFp8). To nearest, ties to
// even. Ours alone: a scale is as small as its block, and with positive_floor a positive value of a
// non-negative slot is never coded as zero, which would make the next update explode. What is not finite
// is kept as NaN.
#pragma once
#include "../core/scaled_float8.cuh"

namespace jitstep::codecs::fp8 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;  //
};
using Code = uint8;
struct Meta {
  float scale;
};

template <class Sign, Options O>
struct Codec : ScaledFloat8<Sign, E4M3, Meta, O.block, O.positive_floor> {
  using Code = fp8::Code;
};

}  // namespace jitstep::codecs::fp8
