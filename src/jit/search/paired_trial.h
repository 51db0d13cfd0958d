// Compares a configuration with the default by alternating measurements. Does not read a clock itself.
#pragma once

#include <vector>

#include "jit/tuning/trial.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// How many rounds a comparison needs, and when it ends.
struct TrialRules {
  // Even: as many rounds begin with the default as with the configuration.
  int least_rounds = 8;  // minimum of a trial
  int most_rounds = 32;  // after these, an undecided trial stays undecided
  // A trial ends after four rounds if the configuration takes this many times as long as the default.
  double hopeless = 1.5;
  double least_gain = 0.01;  // a smaller gain does not count
};

/// A trial in progress. Each round measures the default and the configuration. The order alternates between rounds, and
/// a trial ends after an even number of them. So neither a drift of the machine's speed nor a cost of switching between
/// both favors one of them.
class JITSTEP_API PairedTrial {
 public:
  explicit PairedTrial(const TrialRules& rules = {}) : rules_(rules) {}

  /// Whether the default runs next, instead of the configuration.
  bool default_is_next() const;
  /// Records the seconds of the last run.
  void record(double seconds);
  /// Whether the trial has ended: the gain is proved or excluded, the configuration is hopeless, or the maximum number
  /// of rounds is reached. Never true within a round.
  bool done() const;
  TrialTimes times() const;

 private:
  TrialRules rules_;
  std::vector<double> default_config_, tried_;
};

/// Whether the times prove a gain of at least `least_gain` over the default, and whether they leave it possible.
JITSTEP_API bool proves_gain(const TrialTimes& times, const TrialRules& rules = {});
JITSTEP_API bool may_gain(const TrialTimes& times, const TrialRules& rules = {});

}  // namespace jitstep::jit
