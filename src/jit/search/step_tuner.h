// Tunes an optimizer's kernels in its own steps. Each step tries one configuration, on its own data. ConfigSearch
// decides the order of trials.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jit/search/config_search.h"
#include "jit/search/scratch_tensors.h"
#include "jit/tuning/config_chooser.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// What the tuner needs of the tensors of one device.
struct TunerInput {
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
  /// `agree`: makes processes that train together choose the same configurations. If set, all processes run the trials
  /// of the same kernels in the same steps, and call `agree` after the same steps with equally many numbers. This
  /// depends only on what they have in common: the rules and formats of the tensors that are active in each step. A
  /// process that cannot run a candidate runs the default in its trial. Parts of tensors, their layouts, hardware and
  /// tuning records may differ.
  StepTuner(Engine& engine, Agreement agree);

  /// Starts tuning for these tables on this hardware. Call it again when the tables change.
  void begin(const TunerInput& tables, const Hardware& hardware);

  /// The step to run now instead of the default one. A new configuration is first checked on scratch tensors. Null if
  /// no kernel of these tables is tuned, or if tensors are inactive during the search and there is no Agreement.
  /// `inputs`, `hyper_params`: of this step.
  Step* choose(const TunerInput& tables, const std::vector<StepInput>& inputs,
               const std::vector<HyperParams>& hyper_params);
  /// True if the step from choose() must be timed.
  bool is_trial() const { return running_ != nullptr; }
  /// Records the seconds of the step from choose(). Do not call it for a step that the device skipped.
  void record(double seconds);
  /// A kernel whose search is over counts with all of its candidates.
  TuningProgress progress() const;

 private:
  // The search for one kernel. It outlives the tables.
  struct KernelSearch {
    std::string key;
    Plan plan;
    WorkSize size;
    Hardware hardware;
    ConfigSearch search;
    std::size_t candidates = 0;
    bool written = false;
  };
  struct Now;

  void set_hardware(const Hardware& hardware);
  std::string key_of(const Batch& batch) const;
  KernelSearch& kernel_of(const Batch& batch);
  bool is_known(const Batch& batch);
  bool is_over() const;
  bool has_elements(const KernelSearch& kernel, const TunerInput& tables) const;
  bool is_active(const KernelSearch& kernel, const Now& now) const;
  bool is_tried_here(const KernelSearch& kernel, const KernelConfig& candidate) const;
  std::optional<Trial> problem_of(const KernelSearch& kernel, const Now& now);
  std::optional<Trial> problem_of_batch(std::size_t batch, const KernelConfig& candidate,
                                        const Now& now);
  KernelSearch* next_search(const Now& now) const;
  KernelSearch* next_usable(const Now& now);
  KernelConfig config_of(std::size_t batch, const Plan& plan) const;
  Step& current_step(const TunerInput& tables);
  void write(KernelSearch& kernel);

  Engine& engine_;
  Agreement agree_;
  TrialRules rules_;
  Hardware hardware_;                     // of the current tables
  std::optional<ConfigChooser> chooser_;  // for hardware_
  std::map<std::string, KernelSearch> kernels_;
  std::vector<KernelSearch*>
      kernel_of_batch_;  // of the current tables; null: an exact record exists
  // The same without duplicates, in the order of their searches.
  std::vector<KernelSearch*> order_;
  std::vector<std::string> specs_;  // by batch
  // By spec and candidate: the elements of the largest tensor for which the check of the candidate was good.
  std::map<std::pair<std::string, KernelConfig>, std::int64_t> usable_;
  std::map<std::vector<KernelConfig>, Step> steps_;
  std::vector<KernelConfig> untuned_configs_;  // by batch: used until its search begins
  KernelSearch* running_ = nullptr;            // the chosen step is its trial; null: no trial
  bool measures_ = true;                       // this process has elements of its kernel
};

/// A tuner if the settings or `requested` ask for one, else null. Warns if tuning was requested but is not possible.
JITSTEP_API std::unique_ptr<StepTuner> make_step_tuner(bool requested, Agreement agree);

}  // namespace jitstep::jit
