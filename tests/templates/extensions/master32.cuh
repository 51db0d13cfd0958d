// A weight format of the tests: bfloat16 parameters with the float that they are rounded from as residual.
// for: bfloat16
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::weights::master32 {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = float;
  static constexpr bool random = false;
  KHD static real first(typename Format::Bits bits) { return Format::load(bits); }
  KHD static real load(typename Format::Bits, Residual master) { return master; }
  KHD static typename Format::Bits store(real x, uint32, Residual& master) {
    master = x;
    return Format::store(x);
  }
};

}  // namespace jitstep::weights::master32
