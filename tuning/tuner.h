// Tunes workloads on a device, one after another, and keeps what it finds as it goes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "jit/codegen/tuning_record.h"
#include "tuning/strategies.h"
#include "tuning/tuning_device.h"

namespace jitstep::tuning {

/// How a tuner is to go about it.
struct TunerOptions {
  std::string strategy = "local";
  double budget_seconds =
      60;               // of all workloads together, shared out evenly among those that are left
  int most_trials = 0;  // of a workload; 0: as many as there are
  bool again = false;   // also what a complete record is known of
  jit::TrialRules rules = {};
  std::string records = {};            // the file they are kept in; empty: nowhere
  std::function<double()> clock = {};  // seconds; the steady one unless set
  std::function<bool()> stopped =
      {};  // asked between steps; true: the tuner ends, and can be resumed
  std::function<void(const jit::TuningRecord&)> on_trial = {};  // after each trial
};

/// What became of one workload.
struct Tuned {
  Workload workload;
  jit::TuningRecord record;
  bool known = false;        // the record was there before
  std::string problem = {};  // why nothing was measured
};

/// Tunes the workloads in their order. After each trial the record is written with what is known so far; one that is
/// found incomplete goes on where it was interrupted, a complete one stays. Fewer results than workloads: it was
/// stopped. An Error if the records cannot be written.
std::vector<Tuned> tune(const std::vector<Workload>& workloads, TuningDevice& device,
                        const TunerOptions& options);

}  // namespace jitstep::tuning
