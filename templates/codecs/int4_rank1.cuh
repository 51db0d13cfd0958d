// 4-bit state with rank-1 normalization (arXiv 2309.01507; lpmm). There is one scale per index of each dimension, the
// largest magnitude along it, and none per block. An element's scale is the smallest of its scales. Otherwise as
// `int4` without signed_scale: a negative value whose magnitude is its scale becomes a ninth smaller at each encoding.
// A value that is not finite does not change a scale. Of more than four dimensions, the first four have scales.
// vectors: int4
#pragma once
#include "support/normalized_int4.cuh"

namespace jitstep::codecs::int4_rank1 {

struct Options {
  int dims = 2;             // in [2, 4]; dimensions of the parameter
  bool stochastic = false;
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

template <class Sign, Options O>
struct Codec {
  using Code = int4_rank1::Code;
  using Meta = NoMeta;
  using ScaledCodec = NormalizedInt4<Sign, O.stochastic>;
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
