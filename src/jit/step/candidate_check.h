// Whether a configuration may be tried at all: it compiles, fits the device and leaves the default's bits.
#pragma once

#include <optional>
#include <vector>

#include "jit/codegen/paired_trial.h"
#include "jit/step/scratch_tensors.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// A kernel to be tried, with the numbers of a step of it.
struct Candidate {
  Plan plan;
  HyperParams numbers = {};
  std::vector<std::int64_t> sizes = {};  // of one of its tensors
};

/// Why a kernel of these resources is not to be run in blocks of so many threads: it spills, or asks for more than a
/// multiprocessor has (65536 registers, 48 KiB of static shared memory). The trial that says so, or nothing.
JITSTEP_API std::optional<Trial> resource_problem(const KernelConfig& config,
                                                  const std::vector<Resources>& resources);

/// Runs both configurations on two chunks of scratch and compares everything they leave. The trial that failed, or nothing.
/// Whatever goes wrong with the candidate is such a trial and no exception.
JITSTEP_API std::optional<Trial> check_candidate(Backend& backend, const Candidate& kernel,
                                                 const KernelConfig& default_config,
                                                 const KernelConfig& candidate,
                                                 const DownloadFrom& download);

}  // namespace jitstep::jit
