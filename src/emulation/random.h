// Pseudo-random numbers for orders that the hardware leaves undefined.
#pragma once

#include <cstdint>

namespace jitstep::emulation {

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014). Gives the same numbers with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace jitstep::emulation
