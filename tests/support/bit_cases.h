// The cases whose bits must be equal on every target, by name.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "emulation/step_case.h"

namespace jitstep::support {
using namespace emulation;

/// One or a few cases of one kind. `make` runs inside the test, because some cases load test extensions that other
/// tests must not see.
struct BitCase {
  std::string name;  // a gtest parameter's name
  std::function<std::vector<StepCase>()> make;
  std::size_t ways = 1;  // number of emulated configurations to run
};
inline void PrintTo(const BitCase& c, std::ostream* out) { *out << c.name; }

/// Every CI combination, sums over all tensors, block sizes, layouts, and values that are not finite.
std::vector<BitCase> bit_cases();

/// Cases of combinations.h with small tensors, grouped by rule: the first of each rule and every `stride`-th after it.
std::vector<BitCase> by_rule(std::vector<StepCase> (*cases)(), std::size_t stride = 1);

/// Cases of tests/templates/extensions, for features that no shipped rule uses yet.
std::vector<BitCase> extension_bit_cases();

/// Cases of the extensions with many kernels.
std::vector<BitCase> large_bit_cases();

/// The name of a test with a BitCase parameter.
inline constexpr auto kCaseName = [](const auto& info) { return info.param.name; };

}  // namespace jitstep::support
