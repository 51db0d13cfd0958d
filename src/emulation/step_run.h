// Runs the steps of a case on any back end and returns the buffers after each step.
#pragma once

#include <cstring>
#include <functional>
#include <memory>

#include "emulation/guarded_buffer.h"
#include "emulation/step_case.h"
#include "emulation/step_outcome.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::emulation {

/// How tensors are distributed over batches.
enum class Grouping { kTogether, kEachAlone, kHalves };

/// How a device repeats work, as a CUDA graph does. `capture` records the operations of `work` instead of running them.
/// `replay` runs the last recording.
struct Graphs {
  std::function<void(const std::function<void()>& work)> capture = {};
  std::function<void()> replay = {};
};

/// A back end and a function that copies from its memory. The default is for host memory. With graphs, all steps of a
/// case after the first one are replays of one captured step.
struct Device {
  jit::Backend& backend;
  Download download = [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); };
  Graphs graphs = {};

  Device(jit::Backend& m) : backend(m) {}  // NOLINT(google-explicit-constructor)
  Device(jit::Backend& m, Download d) : backend(m), download(std::move(d)) {}
  Device(jit::Backend& m, Graphs g) : backend(m), graphs(std::move(g)) {}
};

/// The steps of one case. A fixed host transform, which halves the values, replaces the rule's own. The case, the back
/// end and the catalog must outlive the run. All runs of a case use the same parameters and gradients.
class StepRun {
 public:
  StepRun(const StepCase& c, const Device& device, const jit::KernelConfig& config,
          Grouping grouping = Grouping::kTogether,
          const jit::Catalog& catalog = jit::default_catalog());
  ~StepRun();

  /// Runs the next step. Returns false, and does nothing, after the last one. For a rule with modes, three mode
  /// switches follow the steps: to evaluation, to training, and to evaluation.
  bool step();
  /// All buffers after the steps so far.
  StepOutcome outcome() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// All buffers after all steps of a case.
StepOutcome run_case(const StepCase& c, const Device& device, const jit::KernelConfig& config,
                     Grouping grouping = Grouping::kTogether,
                     const jit::Catalog& catalog = jit::default_catalog());

}  // namespace jitstep::emulation
