// Loops over elements that the host compiler does not vectorize.
#pragma once

#include <vector>

#include "kernels.h"
#include "report.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// Adds a warning to the report of each kernel with such a loop. Checks only kernels with the formats of the first one.
/// These have all options that a file is checked with. Reads the log of LoopReporter, or compiles a kernel again whose
/// binary in the cache has none. `reports` are those of the candidates, in the same order.
void warn_of_scalar_loops(const std::vector<Candidate>& candidates, Workbench& plain,
                          std::vector<KernelReport>& reports);

}  // namespace jitstep::tool::check
