// bfloat16 parameters with stochastic rounding. It is unbiased, so small updates are not lost. It is repeatable:
// random bits depend only on seed, tensor, step and element.   for: bfloat16
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::weights::stochastic {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = NoResidual;
  static constexpr bool random = true;
  static constexpr bool rounds_randomly = true;
  KHD static real load(typename Format::Bits bits) { return Format::load(bits); }
  KHD static typename Format::Bits store(real x, uint32 random_bits) {
    return float_to_bf16_stochastic(x, random_bits);
  }
};

}  // namespace jitstep::weights::stochastic
