// Finds loops that the host compiler did not vectorize, from its report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/source/source_map.h"

namespace jitstep::jit {

/// A loop that a template marks by a preceding line `// vectorized: WHAT`, and that the compiler did not vectorize.
struct ScalarLoop {
  std::string what;         // "the loop over elements"
  SourceLocation location;  // its `for`
  std::string reason;       // the compiler's reason, such as "control flow in loop"; may be empty
};

/// Each marked loop that the compiler did not vectorize in at least one function that contains it. `preprocessed` is
/// the compiled source. `report` is the result of HostCompiler::loop_report() for it, by g++ or clang++.
std::vector<ScalarLoop> scalar_loops(std::string_view preprocessed, std::string_view report);

/// "the loop over elements (kernel/loop/load.cuh:207: control flow in loop)".
std::string to_string(const ScalarLoop& loop);

/// The lines that LoopReporter adds to the log of a binary, so that the cache keeps them. They name the source, because
/// the key of a binary covers neither comments nor line numbers.
std::string log_of(const std::vector<ScalarLoop>& loops, std::string_view preprocessed);

/// The loops in a log, each as to_string() writes it. None if the log has no lines of log_of() for this source.
std::optional<std::vector<std::string>> loops_in_log(std::string_view log,
                                                     std::string_view preprocessed);

}  // namespace jitstep::jit
