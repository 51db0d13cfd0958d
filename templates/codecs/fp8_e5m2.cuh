// Block-scaled 8-bit floats, E5M2: the largest magnitude of a block becomes 57344. It rounds to nearest even. A scale
// may be as small as its block's values. With positive_floor, a positive value of a non-negative slot is never stored
// as zero, because the next update would divide by eps alone. A value that is not finite is stored as NaN. stochastic
// selects stochastic rounding. Its mean is exact, except for values that positive_floor raises.
#pragma once
#include "support/scaled_float8.cuh"

namespace jitstep::codecs::fp8_e5m2 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;
  bool stochastic = false;
};
using Code = uint8;
struct Meta {
  float scale;
};

template <Options O>
inline constexpr Ways kWays = {
    .block = O.block, .positive_floor = O.positive_floor, .stochastic = O.stochastic};

template <class Sign, Options O>
struct Codec : ScaledFloat8<Sign, E5M2, Meta, kWays<O>> {
  using Code = fp8_e5m2::Code;
  static constexpr bool random = O.stochastic;
};

}  // namespace jitstep::codecs::fp8_e5m2
