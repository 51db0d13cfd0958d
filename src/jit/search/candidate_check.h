// Checks a candidate configuration before it is timed: it compiles, fits the device, and gives the default's bits.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "jit/search/config_search.h"
#include "jit/search/scratch_tensors.h"
#include "jit/tuning/trial.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// A kernel to tune, with the hyperparameters of one step.
struct Candidate {
  Plan plan;
  HyperParams numbers = {};
  std::vector<std::int64_t> sizes = {};  // of one tensor
};

/// The bytes that a kernel's entries spill at most.
JITSTEP_API int largest_spill(const std::vector<Resources>& resources);

/// Checks a kernel's resources for the block size of a configuration. Returns a failed trial if an entry spills more
/// than `permitted_spill` bytes, or needs more than a multiprocessor has (65536 registers, 48 KiB of static shared
/// memory per block). Otherwise empty.
JITSTEP_API std::optional<Trial> resource_problem(const KernelConfig& config,
                                                  const std::vector<Resources>& resources,
                                                  int permitted_spill = 0);

/// Runs both configurations on scratch tensors of two chunks and compares all results. Returns a failed trial, or
/// empty. Errors of the candidate are reported as a failed trial, not as an exception. Throws if the
/// machine lacks something: see check_next().
JITSTEP_API std::optional<Trial> check_candidate(Backend& backend, const Candidate& kernel,
                                                 const KernelConfig& default_config,
                                                 const KernelConfig& candidate,
                                                 const DownloadFrom& download);

/// Checks the next candidate of a search. A candidate that fails is rejected. It is left out if the machine lacked
/// something, such as disk space or memory, so that another check may succeed. True if the candidate can run.
JITSTEP_API bool check_next(ConfigSearch& search,
                            const std::function<std::optional<Trial>()>& check);

}  // namespace jitstep::jit
