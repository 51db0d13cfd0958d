// Everything that is tried with the kernels of a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels.h"
#include "report.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// Told before each piece of work: how many are done, of how many, and what comes.
using Progress = std::function<void(std::size_t done, std::size_t all, const std::string& what)>;

/// Compiles every kernel for the CPU and, if that succeeds, everything else: for the GPU `targets`, for
/// the emulation, poisoned. Then runs each: against its contract, the same steps everywhere, down a bowl.
std::vector<KernelReport> check_kernels(const std::vector<Candidate>& candidates,
                                        const std::vector<jit::Target>& targets,
                                        Workbenches& benches, const Progress& progress);

}  // namespace jitstep::tool::check
