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

/// Measures the round-trip error of a codec. If it is above the limit, nothing else is checked. Then compiles every
/// kernel for the CPU and checks the contract of the rule's functions. Compiles each kernel that the CPU's compiler
/// accepted for the GPU `targets`. Compiles those that keep the contract for the emulation and with poisoned unset
/// values. Compares their steps with the CPU's, and minimizes a quadratic function.
std::vector<KernelReport> check_kernels(const std::vector<Candidate>& candidates,
                                        const std::vector<jit::Target>& targets,
                                        Workbenches& benches, const Progress& progress);

}  // namespace jitstep::tool::check
