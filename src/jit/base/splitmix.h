// Pseudo-random numbers that are the same with every standard library.
#pragma once

#include <cstdint>

namespace jitstep::jit {

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): the next number, after a step of `state`. Any state is a seed.
constexpr std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace jitstep::jit
