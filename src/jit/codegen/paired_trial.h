// Compares a configuration with the default by alternating measurements. Does not read a clock itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// How many rounds a comparison needs, and when it ends.
struct TrialRules {
  int least_rounds = 7;  // minimum of a trial
  int most_rounds = 31;  // after these, an undecided trial stays undecided
  // A trial ends after three rounds if the configuration takes this many times as long as the default.
  double hopeless = 1.5;
  double least_gain = 0.01;  // a smaller gain does not count
};

/// Times of a configuration and of the default in the same rounds. `ratio`: the median over the rounds of the
/// configuration's time divided by the default's. `spread`: the uncertainty of that median, 1.58 times the
/// interquartile range divided by the square root of the rounds, as for the notches of a box plot (McGill, Tukey,
/// Larsen, The American Statistician 1978).
struct TrialTimes {
  int rounds = 0;
  double seconds = 0;          // median time of one step
  double default_seconds = 0;  // the default's
  double ratio = 1;
  double spread = 0;

  bool operator==(const TrialTimes&) const = default;
};

/// Result of a candidate.
enum class TrialStatus {
  timed,
  does_not_compile,
  spills,
  exceeds_resources,
  wrong_bits,
  timed_out
};

/// "timed", "does not compile", "spills", "exceeds resources", "wrong bits", "timed out".
JITSTEP_API std::string to_string(TrialStatus status);
/// The inverse of to_string(). Empty for other texts.
JITSTEP_API std::optional<TrialStatus> trial_status(const std::string& word);

/// One candidate and its result.
struct JITSTEP_API Trial {
  KernelConfig config = {};
  TrialStatus status = TrialStatus::timed;
  std::string detail = {};  // one line about a failure
  TrialTimes times = {};    // if the status is `timed`

  bool operator==(const Trial&) const = default;
};

/// A trial in progress. Each round measures the default and the configuration. The order alternates between rounds, so
/// that a drift of the machine's speed has no effect on the comparison.
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
