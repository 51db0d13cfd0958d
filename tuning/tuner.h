// Tunes workloads on a device, one after another, and writes a tuning record after each trial.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "jit/tuning/tuning_record.h"
#include "tuning/strategies.h"
#include "tuning/tuning_device.h"

namespace jitstep::tuning {

/// Options of tune().
struct TunerOptions {
  std::string strategy = "local";
  double budget_seconds = 60;  // for all workloads; the remaining ones share the rest equally
  int most_trials = 0;         // per workload; 0: no limit
  bool again = false;          // also tune workloads with a complete record
  jit::TrialRules rules = {};
  std::string records = {};                                     // file of records; empty: none
  std::function<double()> clock = {};                           // seconds; default: steady_seconds
  std::function<bool()> stopped = {};                           // polled between steps; true: stop
  std::function<void(const jit::TuningRecord&)> on_trial = {};  // called after each trial
};

/// The result of one workload.
struct Tuned {
  Workload workload;
  jit::TuningRecord record;
  bool known = false;  // the record existed before
  // Why nothing was measured, why the record is not stored, or why candidates could not be checked.
  std::string problem = {};
  bool finished = true;  // false: it was stopped before the best candidate was confirmed
};

/// Tunes the workloads in order. Writes the record after each trial. Continues an incomplete record, also one whose
/// budget or trials ended, and does not repeat a complete one unless `again`. Returns fewer results than workloads if
/// it was stopped. If a record cannot be stored, its result has the reason, and tuning continues. A candidate that could
/// not be checked, as on a full disk, is tried in the next run.
std::vector<Tuned> tune(const std::vector<Workload>& workloads, TuningDevice& device,
                        const TunerOptions& options);

}  // namespace jitstep::tuning
