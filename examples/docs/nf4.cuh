// Block-scaled 4-bit state in the values of NF4, arXiv 2305.14314.
#pragma once
#include "support/codebook.cuh"

namespace jitstep::codecs::nf4 {

struct Options {
  int block = 64;  // power of two in [32, 1024]
};
using Code = Nibble;
struct Meta {
  float scale;
};

struct Values {
  static constexpr Table<16> values = {
      {-1.0f, -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f, -0.09105004f, 0.0f, 0.0795803f,
       0.1609302f, 0.2461123f, 0.33791524f, 0.44070983f, 0.562617f, 0.72295684f, 1.0f}};
  static constexpr Table<16> thresholds = thresholds_of(values);  // where each code begins: half-way to the previous
  static constexpr int zero = 7;                                  // the code of 0
  KHD static int candidate(float y) {  // the code nearest to y, or the next one; at least 1
    int code = 1;
    for (int i = 2; i < 16; ++i) code += y >= thresholds.x[i] ? 1 : 0;
    return code;
  }
};

template <Options O>
inline constexpr Ways kWays = {.block = O.block, .positive_floor = true};

template <class Sign, Options O>
struct Codec : CodebookCodec<Sign, Values, Meta, kWays<O>> {
  using Code = nf4::Code;
};

}  // namespace jitstep::codecs::nf4
