// A codec of the tests: 8 bits scaled by the smaller of the maxima along two axes (rank-1 normalization, arXiv
// 2309.01507), with stochastic rounding of the codes.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::axis_maxima8 {

using Code = uint8;
struct First {
  real largest;
};
struct Second {
  real largest;
};
struct Reductions {
  Max<axis<0>, 1, First> first_axis;
  Max<axis<1>, 1, Second> second_axis;
};
struct AuxState {
  Entry<axis<0>> first_axis;
  Entry<axis<1>> second_axis;
};

template <class Sign>
struct Codec {
  using Code = axis_maxima8::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = true;
  KHD static Reals<1> terms(Of<First>, real x) { return {is_finite(x) ? abs(x) : real(0)}; }
  KHD static Reals<1> terms(Of<Second>, real x) { return {is_finite(x) ? abs(x) : real(0)}; }
  KHD static First finalize(Of<First>, const Totals<1>& largest, int64, AuxState& m) {
    m.first_axis.next = static_cast<real>(largest[0]);
    return {m.first_axis.next};
  }
  KHD static Second finalize(Of<Second>, const Totals<1>& largest, int64, AuxState& m) {
    m.second_axis.next = static_cast<real>(largest[0]);
    return {m.second_axis.next};
  }
  KHD static real decode(Code code, const Meta&, const AuxState& m) {
    const real scale = min(m.first_axis.prev, m.second_axis.prev);
    return static_cast<real>(static_cast<int>(code) - 128) * (scale / 127);
  }
  KHD static Code encode(real x, const Meta&, uint32 random_bits, const AuxState& m) {
    const real scale = min(m.first_axis.next, m.second_axis.next);
    const real y = scale > 0 && is_finite(x) ? x / scale * 127 + 127 : real(127);
    const real up = y + static_cast<real>(random_bits) * static_cast<real>(0x1p-16);
    return static_cast<Code>(1 + static_cast<int>(max(min(up, real(254)), real(0))));
  }
};

}  // namespace jitstep::codecs::axis_maxima8
