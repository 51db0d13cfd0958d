// Tunes an optimizer's kernels in its own steps. Each step tries one configuration, on its own data. jit::ConfigSearch
// decides the order of trials.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/search/config_search.h"
#include "jit/search/scratch_tensors.h"
#include "jit/tuning/config_chooser.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/step.h"

namespace jitstep {

/// The tensors of one device, as the tuner needs them.
struct TunedTables {
  jit::Backend& backend;
  const std::vector<jit::Batch>& batches;
  jit::SharedState* shared_state;
  jit::DownloadFrom download;   // from device memory, after all work on the device
  jit::Exchange exchange = {};  // for parts of parameters
};

/// Writes its results to the user's tuning records. Not thread-safe. Belongs to one Stepper.
class StepTuner {
 public:
  /// `agree`: see Optimizer::set_tuning_agreement. If set, trials have a fixed length, so that all processes run the
  /// same trial in the same step.
  StepTuner(jit::Engine& engine, jit::Agreement agree);

  /// Starts tuning for these tables on this hardware. Call it again when the tables change.
  void begin(const TunedTables& tables, const jit::Hardware& hardware);

  /// The step to run now instead of the default one. A new configuration is first checked on scratch tensors. Null if
  /// no kernel of these tables is tuned, or if tensors are inactive during the search. `inputs`, `hyper_params`: of
  /// this step.
  jit::Step* choose(const TunedTables& tables, const std::vector<jit::StepInput>& inputs,
                    const std::vector<HyperParams>& hyper_params);
  /// True if the step from choose() must be timed.
  bool is_trial() const { return timed_; }
  /// Records the seconds of the step from choose(). Do not call it for a step that the device skipped.
  void record(double seconds);

 private:
  // The search for one kernel at one size. It outlives the tables.
  struct Kernel {
    jit::Plan plan;
    jit::WorkSize size;
    jit::ConfigSearch search;
    bool written = false;
  };

  void set_hardware(const jit::Hardware& hardware);
  Kernel* active();
  Kernel& kernel_of(const jit::Batch& batch);
  bool is_known(const jit::Batch& batch);
  void reject_unusable(const TunedTables& tables, const std::vector<jit::StepInput>& inputs,
                       const std::vector<HyperParams>& hyper_params);
  jit::Step& current_step(const TunedTables& tables);
  void write(Kernel& kernel);

  jit::Engine& engine_;
  jit::Agreement agree_;
  jit::TrialRules rules_;
  jit::Hardware hardware_;                     // of the current tables
  std::optional<jit::ConfigChooser> chooser_;  // for hardware_
  std::map<std::string, Kernel> kernels_;
  std::vector<Kernel*> kernel_of_batch_;  // of the current tables; null: an exact record exists
  std::map<std::vector<jit::KernelConfig>, jit::Step> steps_;
  std::vector<jit::KernelConfig> untuned_configs_;  // by batch: used until its search begins
  bool timed_ = false;                              // the chosen step is a trial
};

/// A tuner if the settings or `requested` ask for one, else null. Warns if tuning was requested but is not possible.
std::unique_ptr<StepTuner> make_step_tuner(bool requested, jit::Agreement agree);

}  // namespace jitstep
