// Pseudo-random numbers for orders that the hardware leaves undefined.
#pragma once

#include <cstdint>

#include "jit/base/splitmix.h"

namespace jitstep::emulation {

/// The numbers of splitmix64().
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return jit::splitmix64(state_); }

 private:
  std::uint64_t state_;
};

}  // namespace jitstep::emulation
