// Tests of one operation at a time: its result for many values, as bits.
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

/// An operation with one result and up to four operands of the given widths in bits. A width of 1 is a predicate.
/// `expected` computes the result differently from the interpreter.
struct FormCase {
  std::string name;
  int result = 32;
  std::vector<int> operands = {};
  std::function<Bits(const std::vector<Bits>&)> expected = {};
  bool real = false;  // any NaN equals any other
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

/// Runs the operation over many combinations of difficult values, and adds a gtest failure for each wrong result. The
/// result's register is narrower or wider than the type if PTX allows it.
void check(const FormCase& form);

/// The expected results of the operations in add_..._forms.
std::vector<FormCase> integer_cases();
std::vector<FormCase> real_cases();
std::vector<FormCase> comparison_cases();
std::vector<FormCase> conversion_cases();

}  // namespace jitstep::tests
