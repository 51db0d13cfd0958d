// Tunes the kernels of an optimizer in its own steps: each one tries one configuration, on data that no other configuration
// sees. Knows steps and times; the order of trials is jit's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/codegen/config_search.h"
#include "jit/step/config_chooser.h"
#include "jit/step/scratch_tensors.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/step.h"

namespace jitstep {

/// The tensors of one device as a tuner sees them.
struct TunedTables {
  jit::Backend& backend;
  const std::vector<jit::Batch>& batches;
  jit::SharedState* shared_state;
  jit::DownloadFrom download;  // from its memory, when all work on it is over
};

/// Not thread safe: belongs to one Stepper. What it has found out it writes to the user's records.
class StepTuner {
 public:
  /// `agree`: as of Optimizer::set_tuning_agreement; trials are then of a fixed length, so that all processes are
  /// at the same one in the same step.
  StepTuner(jit::Engine& engine, jit::Agreement agree);

  /// What is found out later is of these tables, on this machine.
  void begin(const TunedTables& tables, const jit::Hardware& hardware);

  /// The step that is to be run now instead of the usual one, checked on scratch when it is new; null if nothing is
  /// left to be tuned, and nothing was won. `inputs`, `sets`: of this step.
  jit::Step* choose(const TunedTables& tables, const std::vector<jit::StepInput>& inputs,
                    const std::vector<HyperParams>& hyper_params);
  /// Whether the step that choose() gave is to be timed.
  bool is_trial() const { return timed_; }
  /// The seconds of the step that choose() gave; not to be called for one that the device may have skipped.
  void record(double seconds);

 private:
  // The tuning of one kernel at one size, whichever tables it is in.
  struct Kernel {
    jit::Plan plan;
    jit::WorkSize size;
    jit::ConfigSearch tournament;
    bool written = false;
  };

  void be_for(const jit::Hardware& hardware);
  Kernel* active();
  Kernel& kernel_of(const jit::Batch& batch);
  bool is_known(const jit::Batch& batch);
  void drop_unusable(const TunedTables& tables, const std::vector<jit::StepInput>& inputs,
                     const std::vector<HyperParams>& hyper_params);
  jit::Step& step_of_now(const TunedTables& tables);
  void write(Kernel& kernel);

  jit::Engine& engine_;
  jit::Agreement agree_;
  jit::TrialRules rules_;
  jit::Hardware hardware_;                     // of the current tables
  std::optional<jit::ConfigChooser> chooser_;  // for it
  std::map<std::string, Kernel> kernels_;
  std::vector<Kernel*> of_batches_;  // of the current tables; null: known before
  std::map<std::vector<jit::KernelConfig>, jit::Step> steps_;
  std::vector<jit::KernelConfig> known_;  // of batches that are not tuned
  bool timed_ = false;                    // whether the step that was chosen is a trial
};

/// A tuner as settings and options ask for, or null; a warning says why one that is asked for cannot be had.
std::unique_ptr<StepTuner> make_step_tuner(bool requested, jit::Agreement agree);

}  // namespace jitstep
