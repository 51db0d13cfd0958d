// A codec of the tests: 8 bits with one scale for the whole tensor. A sum over the tensor computes it before the values
// are encoded. The codec stores the norm, like LAMB16's format.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::tensor_scale8 {

using Code = uint8;
struct Norm {
  real unused;
};
struct Reductions {
  Sum<tensor, 1, Norm> norm;
};
struct AuxState {
  Entry<tensor> norm;  // initial: 0
};

template <class Sign>
struct Codec {
  using Code = tensor_scale8::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = false;
  KHD static Reals<1> terms(Of<Norm>, real x) { return {x * x}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64 count, AuxState& m) {
    m.norm.next = static_cast<real>(4 * sqrt(sum[0] / static_cast<double>(count)));
    return {m.norm.next};
  }
  KHD static real decode(Code code, const Meta&, const AuxState& m) {
    return static_cast<real>(static_cast<int>(code) - 128) * (m.norm.prev / 127);
  }
  KHD static Code encode(real x, const Meta&, uint32, const AuxState& m) {
    const real y = m.norm.next > 0 && is_finite(x) ? x / m.norm.next * 127 : real(0);
    return static_cast<Code>(static_cast<int>(max(min(y, real(127)), real(-127))) + 128);
  }
};

}  // namespace jitstep::codecs::tensor_scale8
