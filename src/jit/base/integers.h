// Arithmetic with integers.
#pragma once

#include <cstdint>

namespace jitstep::jit {

/// The quotient, rounded up. `a` is at least 0, and `b` at least 1.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace jitstep::jit
