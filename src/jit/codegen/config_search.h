// The order in which a kernel's configurations are tried, and what comes of it. Knows no clock, device or strategy: it is
// told how long things took, so that real steps and scratch tensors are tuned by the same rules.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jit/codegen/paired_trial.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// What a set of trials proves: a configuration was faster than the default, none is, or it stays open.
enum class Outcome { won, default_config, unresolved };

/// "won", "default", "unresolved".
JITSTEP_API std::string to_string(Outcome outcome);
/// The inverse; nothing for other words.
JITSTEP_API std::optional<Outcome> outcome_of(const std::string& word);

/// Names the candidate to be tried after these trials; nothing if there is none left.
using Strategy = std::function<std::optional<KernelConfig>(const std::vector<Trial>& before)>;

/// One after the other.
JITSTEP_API Strategy in_order(std::vector<KernelConfig> candidates);

/// Makes processes that tune together choose alike: given one number for each trial, the same ones come back
/// everywhere. It is called once when all candidates are done, and once more after the second trial of the best.
using Agreement = std::function<std::vector<double>(const std::vector<double>&)>;

/// One kernel's candidates against the default, each in a paired trial. The one that proves most, by the smallest
/// upper end of its ratio, must prove its gain once more in a trial of all rounds: the best of many is so by luck too.
class JITSTEP_API ConfigSearch {
 public:
  /// `before`: trials of an earlier tournament that was interrupted.
  ConfigSearch(const KernelConfig& default_config, Strategy strategy, const TrialRules& rules = {},
               Agreement agree = {}, std::vector<Trial> before = {});

  bool done() const { return phase_ == Phase::done; }
  /// What is to run next.
  const KernelConfig& next() const;
  /// Whether next() is a candidate that has not run yet: it is to be checked before.
  bool is_new() const;
  /// The seconds that next() took.
  void record(double seconds);
  /// The candidate that is tried cannot be used.
  void reject(TrialStatus status, const std::string& detail);
  /// No other candidate is to be tried; the best one's second trial still is.
  void stop();

  const KernelConfig& default_config() const { return default_config_; }
  /// What is known; of use before the end, too.
  const std::vector<Trial>& trials() const { return trials_; }
  Outcome outcome() const;
  /// The winner, or the default.
  const KernelConfig& chosen() const;
  /// The second trial of the best; nothing if there was none.
  const std::optional<TrialTimes>& confirmation() const { return confirmation_; }

 private:
  enum class Phase { candidates, confirmation, done };

  void take_candidate();
  void end_trial();
  void choose_best();
  double agreed_score(const TrialTimes& times) const;

  KernelConfig default_config_;
  Strategy strategy_;
  TrialRules rules_;
  Agreement agree_;
  Phase phase_ = Phase::candidates;
  bool stopped_ = false;
  std::vector<Trial> trials_;
  KernelConfig candidate_;
  PairedTrial running_;
  std::optional<TrialTimes> confirmation_;
  bool won_ = false;
};

}  // namespace jitstep::jit
