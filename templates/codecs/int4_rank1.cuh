// 4-bit state with rank-1 normalization (arXiv 2309.01507; lpmm). There is one scale per index of each dimension, the
// largest magnitude along it, and none per block. An element's scale is the smallest of its scales. Otherwise as
// `int4`. A value that is not finite does not change a scale. Of more than four dimensions, the first four have
// scales.
// vectors: int4
#pragma once
#include "support/codebook.cuh"

namespace jitstep::codecs::int4_rank1 {

struct Options {
  int dims = 2;             // in [2, 4]; dimensions of the parameter
  bool stochastic = false;  //
};
using Code = Nibble;
struct Along0 {
  real largest;
};
struct Along1 {
  real largest;
};
struct Along2 {
  real largest;
};
struct Along3 {
  real largest;
};
struct Reductions {
  Max<axis<0>, 1, Along0> along0;
  Max<axis<1>, 1, Along1> along1;
  Max<axis<2>, 1, Along2> along2;  // if dims > 2
  Max<axis<3>, 1, Along3> along3;  // if dims > 3
};
struct AuxState {
  Entry<axis<0>> scale0;
  Entry<axis<1>> scale1;
  Entry<axis<2>> scale2;  // if dims > 2
  Entry<axis<3>> scale3;  // if dims > 3
};

// Encodes a value divided by its scale. The quotient is not finite if the value is not.
template <class Sign, bool stochastic>
struct Units {
  using Code = int4_rank1::Code;
  using Meta = NoMeta;
  using Codebook = SignedCodebook<4>;
  static constexpr bool random = stochastic;

  KHD static real value_of(float looked_up, const Meta&) { return looked_up; }
  KHD static int candidate(real y, const Meta&) {
    return Codebook::candidate(static_cast<float>(y));
  }
  KHD static uint8 code_of(real value, const Meta&, int candidate, float threshold,
                           uint32 random_bits = 0) {
    const float y = static_cast<float>(value);
    const int code = code_in_codebook<Codebook, stochastic>(y, candidate, threshold, random_bits);
    return static_cast<uint8>(is_finite(y) ? code : Codebook::zero);
  }
  KHD static real decode(uint8 code, const Meta&) { return Codebook::values.x[code]; }
  KHD static uint8 encode(real y, const Meta& none, uint32 random_bits) {
    const int near = candidate(y, none);
    return code_of(y, none, near, Codebook::thresholds.x[near], random_bits);
  }
};
template <bool stochastic>
struct Units<NonNegative, stochastic> {
  using Code = int4_rank1::Code;
  using Meta = NoMeta;
  static constexpr bool random = stochastic;

  KHD static real decode(uint8 code, const Meta&) { return Sixteenths::value(code); }
  KHD static uint8 encode(real value, const Meta&, uint32 random_bits) {
    const float y = static_cast<float>(value);
    const int code = Sixteenths::code<stochastic>(y, random_bits);
    return static_cast<uint8>(is_finite(y) ? code : Sixteenths::not_finite);
  }
};

template <class Sign, Options O>
struct Codec {
  using Code = int4_rank1::Code;
  using Meta = NoMeta;
  using ScaledCodec = Units<Sign, O.stochastic>;
  static constexpr int block = 1;
  static constexpr bool random = O.stochastic;

  template <class Along>
  KHD static Reals<1> terms(Of<Along>, real x) {
    return {is_finite(x) ? abs(x) : real(0)};
  }
  KHD static Along0 finalize(Of<Along0>, const Totals<1>& largest, int64, AuxState& m) {
    return {m.scale0.next = static_cast<real>(largest[0])};
  }
  KHD static Along1 finalize(Of<Along1>, const Totals<1>& largest, int64, AuxState& m) {
    return {m.scale1.next = static_cast<real>(largest[0])};
  }
  KHD static Along2 finalize(Of<Along2>, const Totals<1>& largest, int64, AuxState& m) {
    return {m.scale2.next = static_cast<real>(largest[0])};
  }
  KHD static Along3 finalize(Of<Along3>, const Totals<1>& largest, int64, AuxState& m) {
    return {m.scale3.next = static_cast<real>(largest[0])};
  }

  // The smallest of an element's scales. Scales of missing dimensions are not read.
  KHD static Scale least(real along0, real along1, real along2, real along3) {
    real scale = min(along0, along1);
    if constexpr (O.dims > 2) scale = min(scale, along2);
    if constexpr (O.dims > 3) scale = min(scale, along3);
    return {static_cast<float>(scale)};
  }

  KHD static real denormalize(real y, const AuxState& m) {
    return scaled(static_cast<float>(y),
                  least(m.scale0.prev, m.scale1.prev, m.scale2.prev, m.scale3.prev));
  }
  KHD static real normalize(real x, const AuxState& m) {
    const Scale scale = least(m.scale0.next, m.scale1.next, m.scale2.next, m.scale3.next);
    return static_cast<float>(x) * inverse_of(scale);
  }

  KHD static real decode(uint8 code, const NoMeta& none, const AuxState& m) {
    return denormalize(ScaledCodec::decode(code, none), m);
  }
  KHD static uint8 encode(real x, const NoMeta& none, uint32 random_bits, const AuxState& m) {
    return ScaledCodec::encode(normalize(x, m), none, random_bits);
  }
};

}  // namespace jitstep::codecs::int4_rank1
