// A case's steps on any machine, one after the other, and what each of them leaves.
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

/// How tensors are cut into batches.
enum class Grouping { kTogether, kEachAlone, kHalves };

/// How a device repeats work, as a CUDA graph does: what `work` asks the machine for is captured, and done by each
/// replay of what was captured last.
struct Graphs {
  std::function<void(const std::function<void()>& work)> capture = {};
  std::function<void()> replay = {};
};

/// A machine and the way back from its memory, which is the host's own unless said otherwise. With graphs, the steps of
/// a case after its first one are replays of one step.
struct Device {
  jit::Backend& backend;
  Download download = [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); };
  Graphs graphs = {};

  Device(jit::Backend& m) : backend(m) {}  // NOLINT(google-explicit-constructor)
  Device(jit::Backend& m, Download d) : backend(m), download(std::move(d)) {}
  Device(jit::Backend& m, Graphs g) : backend(m), graphs(std::move(g)) {}
};

/// The steps of one case. The host transform of a rule, whichever it is, halves what it is given. The case, the machine and the catalog must outlive it. Two runs of a case
/// see the same numbers.
class StepRun {
 public:
  StepRun(const StepCase& c, const Device& device, const jit::KernelConfig& config,
          Grouping grouping = Grouping::kTogether,
          const jit::Catalog& catalog = jit::default_catalog());
  ~StepRun();

  /// Makes the next step; false, and nothing done, after the last one. A rule with modes makes three more:
  /// to evaluation, back, and there again.
  bool step();
  /// Every buffer as the steps so far have left it.
  StepOutcome outcome() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What all steps of a case leave.
StepOutcome run_case(const StepCase& c, const Device& device, const jit::KernelConfig& config,
                     Grouping grouping = Grouping::kTogether,
                     const jit::Catalog& catalog = jit::default_catalog());

}  // namespace jitstep::emulation
