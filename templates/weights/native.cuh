// The parameter as it is, rounded to nearest even.   for: float64, float32, bfloat16, float16
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::weights::native {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = NoResidual;
  using Rounded = Format;
  static constexpr bool random = false;
  KHD static real load(typename Format::Bits bits) { return Format::load(bits); }
  KHD static typename Format::Bits store(real x, uint32) { return Format::store(x); }
};

}  // namespace jitstep::weights::native
