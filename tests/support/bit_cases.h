// The cases whose bits must be the same on every machine, by name.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "emulation/step_case.h"

namespace jitstep::support {
using namespace emulation;

/// One or a few cases of one kind. They are made when a test runs, as some load test extensions,
/// which other tests must not see.
struct BitCase {
  std::string name;  // a gtest parameter's name
  std::function<std::vector<StepCase>()> make;
  std::size_t ways = 1;  // of the emulation that each is tried in
};
inline void PrintTo(const BitCase& c, std::ostream* out) { *out << c.name; }

/// Every CI combination, sums over everything, block sizes, layouts, values that are not finite.
std::vector<BitCase> bit_cases();

/// Cases of combinations.h with small tensors, those of a rule together: each `stride`th of a rule's, the first included.
std::vector<BitCase> by_rule(std::vector<StepCase> (*cases)(), std::size_t stride = 1);

/// What no shipped rule needs yet, from tests/templates/extensions.
std::vector<BitCase> extension_bit_cases();

/// Those of them that are many kernels; a part stands for all of them.
enum class Share { part, whole };
std::vector<BitCase> large_bit_cases(Share share);

/// The name of a test that gets a BitCase.
inline constexpr auto kCaseName = [](const auto& info) { return info.param.name; };

}  // namespace jitstep::support
