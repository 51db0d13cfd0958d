// One operation at a time: what it makes of values, as bits.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ptx/kernels.h"

namespace jitstep::tests {

using Bits = std::uint64_t;

/// An operation of up to four values of so many bits each that gives one; 1 bit: a predicate. `expected` is
/// computed in another way than the machine does.
struct FormCase {
  std::string name;
  int result = 32;
  std::vector<int> operands = {};
  std::function<Bits(const std::vector<Bits>&)> expected = {};
  bool real = false;  // a NaN is any NaN
};

inline Bits low(Bits bits, int width) {
  return width == 64 ? bits : bits & ((Bits{1} << width) - 1);
}
inline std::int64_t extended(Bits bits, int width) {
  return static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width);
}
inline float as_float(Bits bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
inline double as_double(Bits bits) { return std::bit_cast<double>(bits); }
inline Bits bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline Bits bits_of(double x) { return std::bit_cast<Bits>(x); }

/// Runs the operation over many combinations of values that are likely to break it; adds a gtest failure for each
/// that comes out otherwise. The result's register is narrower or wider than the type where that is allowed.
void check(const FormCase& form);

/// Of add_..._forms: what each operation gives.
std::vector<FormCase> integer_cases();
std::vector<FormCase> real_cases();
std::vector<FormCase> comparison_cases();
std::vector<FormCase> conversion_cases();

}  // namespace jitstep::tests
