// fp32 master weights: a float for each 16-bit parameter, which is rounded from it (mixed precision, Micikevicius et
// al., arXiv 1710.03740). If the parameter is not what its float rounds to, a program has overwritten it. The new value
// then counts.   for: bfloat16, float16
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::weights::master {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = float;
  static constexpr bool random = false;
  KHD static real first(typename Format::Bits bits) { return Format::load(bits); }
  KHD static real load(typename Format::Bits bits, Residual master) {
    return chosen(Format::store(master) == bits, master, Format::load(bits));
  }
  KHD static typename Format::Bits store(real x, uint32, Residual& master) {
    master = x;
    return Format::store(x);
  }
};

}  // namespace jitstep::weights::master
