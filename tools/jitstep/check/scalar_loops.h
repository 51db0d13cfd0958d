// Loops over elements that the host compiler leaves without vectors.
#pragma once

#include <vector>

#include "kernels.h"
#include "report.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// Adds a warning to the report of each kernel with such a loop: of those in the formats of the first one, that is of all
/// options that a file is tried with. Compiles each of them once more. `reports`: of the candidates, in their order.
void warn_of_scalar_loops(const std::vector<Candidate>& candidates, const Workbench& plain,
                          std::vector<KernelReport>& reports);

}  // namespace jitstep::tool::check
