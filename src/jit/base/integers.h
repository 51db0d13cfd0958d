// Arithmetic with integers.
#pragma once

#include <cstdint>

namespace jitstep::jit {

/// The quotient, rounded up. `a` is at least 0, and `b` at least 1.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The smallest multiple of `unit` that is at least `a`. The same conditions hold.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t unit) {
  return ceil_div(a, unit) * unit;
}

}  // namespace jitstep::jit
