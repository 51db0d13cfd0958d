// Runs all checks of a file's kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels.h"
#include "report.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// Called before each piece of work, with the number of finished pieces, their total number, and the next one.
using Progress = std::function<void(std::size_t done, std::size_t all, const std::string& what)>;

/// Compiles every kernel for the CPU, and measures the round-trip error of a codec. If the error is above the limit,
/// nothing else is checked. Compiles each kernel that succeeded for the GPU `targets`, for the emulation, and with
/// poisoned unset values. Then checks each kernel's contract, compares its steps on the CPU and in the emulation, and
/// minimizes a quadratic function.
std::vector<KernelReport> check_kernels(const std::vector<Candidate>& candidates,
                                        const std::vector<jit::Target>& targets,
                                        Workbenches& benches, const Progress& progress);

}  // namespace jitstep::tool::check
