// Tunes an optimizer's kernels in its own steps. Each step tries one configuration, on its own data. ConfigSearch
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
#include "jitstep/jit/export.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// The tensors of one device, as the tuner needs them.
struct TunedTables {
  Backend& backend;
  const std::vector<Batch>& batches;
  SharedState* shared_state;
  DownloadFrom download;   // from device memory, after all work on the device
  Exchange exchange = {};  // for parts of parameters
};

/// How far the search is, counted in configurations of all kernels of the current tables. The numbers are equal when it
/// has ended.
struct JITSTEP_API TuningProgress {
  std::size_t tried = 0, candidates = 0;
  bool operator==(const TuningProgress&) const = default;
};

/// Writes its results to the user's tuning records. Not thread-safe. Belongs to one optimizer.
class JITSTEP_API StepTuner {
 public:
  /// `agree`: makes processes that train together choose the same configurations. If set, trials have a fixed length,
  /// so that all processes run the same trial in the same step.
  StepTuner(Engine& engine, Agreement agree);

  /// Starts tuning for these tables on this hardware. Call it again when the tables change.
  void begin(const TunedTables& tables, const Hardware& hardware);

  /// The step to run now instead of the default one. A new configuration is first checked on scratch tensors. Null if
  /// no kernel of these tables is tuned, or if tensors are inactive during the search. `inputs`, `hyper_params`: of
  /// this step.
  Step* choose(const TunedTables& tables, const std::vector<StepInput>& inputs,
               const std::vector<HyperParams>& hyper_params);
  /// True if the step from choose() must be timed.
  bool is_trial() const { return timed_; }
  /// Records the seconds of the step from choose(). Do not call it for a step that the device skipped.
  void record(double seconds);
  /// A kernel whose search is over counts with all of its candidates.
  TuningProgress progress() const;

 private:
  // The search for one kernel at one size. It outlives the tables.
  struct KernelSearch {
    Plan plan;
    WorkSize size;
    ConfigSearch search;
    std::size_t candidates = 0;
    bool written = false;
  };

  void set_hardware(const Hardware& hardware);
  KernelSearch* active();
  KernelSearch& kernel_of(const Batch& batch);
  bool is_known(const Batch& batch);
  void reject_unusable(const TunedTables& tables, const std::vector<StepInput>& inputs,
                       const std::vector<HyperParams>& hyper_params);
  Step& current_step(const TunedTables& tables);
  void write(KernelSearch& kernel);

  Engine& engine_;
  Agreement agree_;
  TrialRules rules_;
  Hardware hardware_;                     // of the current tables
  std::optional<ConfigChooser> chooser_;  // for hardware_
  std::map<std::string, KernelSearch> kernels_;
  std::vector<KernelSearch*>
      kernel_of_batch_;  // of the current tables; null: an exact record exists
  std::map<std::vector<KernelConfig>, Step> steps_;
  std::vector<KernelConfig> untuned_configs_;  // by batch: used until its search begins
  bool timed_ = false;                         // the chosen step is a trial
};

/// A tuner if the settings or `requested` ask for one, else null. Warns if tuning was requested but is not possible.
JITSTEP_API std::unique_ptr<StepTuner> make_step_tuner(bool requested, Agreement agree);

}  // namespace jitstep::jit
