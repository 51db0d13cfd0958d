// Which loops the host compiler left without vectors, read in what it reports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/source/source_map.h"

namespace jitstep::jit {

/// A loop that the templates mark by `// vectorized: WHAT` in a line above it, and that takes one element at a time.
struct ScalarLoop {
  std::string what;         // "the loop over elements"
  SourceLocation location;  // its `for`
  std::string reason;       // the compiler's, "control flow in loop"; empty if it gives none
};

/// Each marked loop of which the compiler made no vectors in at least one of the functions that it is part of. `flat` is
/// the text that was compiled, `report` what HostCompiler::loop_report() returned for it: g++'s or clang++'s.
std::vector<ScalarLoop> scalar_loops(std::string_view preprocessed, std::string_view report);

/// "the loop over elements (kernel/loop.cuh:207: control flow in loop)".
std::string to_string(const ScalarLoop& loop);

}  // namespace jitstep::jit
