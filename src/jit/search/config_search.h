// Searches a kernel's configurations by measurement. Independent of clock, device and strategy: the caller reports
// times, so that real steps and scratch tensors are tuned by the same procedure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jit/search/paired_trial.h"
#include "jit/tuning/tuning_record.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// Returns the next candidate after these trials. Empty if none is left.
using Strategy = std::function<std::optional<KernelConfig>(const std::vector<Trial>& before)>;

/// Tries the candidates in the given order.
JITSTEP_API Strategy in_order(std::vector<KernelConfig> candidates);

/// Makes processes that tune together choose the same configuration. It gets one number per trial and must return the
/// same numbers in all processes. It is called once after all candidates, and once more after the confirmation. A
/// smaller number is a faster configuration. All processes must have equally many candidates. A process that cannot run
/// one rejects it: it runs the default in those trials, and gives 1e9.
using Agreement = std::function<std::vector<double>(const std::vector<double>&)>;

/// The number that a process gives for a kernel of which it has no elements, so that it measures nothing: no gain.
inline constexpr double kNothingMeasured = 1;

/// Compares the candidates of one kernel with the default, each in a paired trial. The best one has the smallest upper
/// bound of its ratio. It must confirm its gain in a second trial of full length, because the best of many candidates
/// may be best by chance.
class JITSTEP_API ConfigSearch {
 public:
  /// `before`: trials of an earlier, interrupted search.
  ConfigSearch(const KernelConfig& default_config, Strategy strategy, const TrialRules& rules = {},
               Agreement agree = {}, std::vector<Trial> before = {});

  bool done() const { return phase_ == Phase::done; }
  /// The configuration to run next.
  const KernelConfig& next() const;
  /// Whether next() is a candidate that has not run yet. The caller must check it first.
  bool is_new() const;
  /// Whether next() is the candidate of the current trial, in any round.
  bool tries_candidate() const;
  /// Records the seconds that next() took.
  void record(double seconds);
  /// Records that the current candidate cannot be used. With an Agreement its trial continues with the default, because
  /// other processes may run it in these steps.
  void reject(TrialStatus status, const std::string& detail);
  /// As reject(), but for a cause that may end, such as a full disk: the search is cut, and its record lacks this trial.
  void leave_out(const std::string& cause);
  /// Tries no further candidates. The confirmation of the best one still runs.
  void stop();
  /// True if stop() or leave_out() left candidates out.
  bool is_cut() const { return is_cut_; }

  const KernelConfig& default_config() const { return default_config_; }
  /// The trials so far, with candidates that were left out. Valid before the end, too.
  const std::vector<Trial>& trials() const { return trials_; }
  /// The candidates of leave_out(), with the causes.
  const std::map<KernelConfig, std::string>& left_out() const { return left_out_; }
  Outcome outcome() const;
  /// The winner, or the default. The default, too, if this process cannot run the winner.
  const KernelConfig& chosen() const;
  /// The second trial of the best candidate. Empty if there was none.
  const std::optional<TrialTimes>& confirmation() const { return confirmation_; }

 private:
  enum class Phase { candidates, confirmation, done };

  void take_candidate();
  void end_trial();
  void choose_best();
  double agreed_score(double own) const;

  KernelConfig default_config_;
  Strategy strategy_;
  TrialRules rules_;
  Agreement agree_;
  Phase phase_ = Phase::candidates;
  bool stopped_ = false;
  bool is_cut_ = false;
  std::vector<Trial> trials_;
  std::map<KernelConfig, std::string> left_out_;
  KernelConfig candidate_;
  std::optional<Trial> unusable_;  // the candidate, if its trial runs the default instead
  PairedTrial running_;
  std::optional<TrialTimes> confirmation_;
  bool won_ = false;
};

/// The record with the results of a search so far.
JITSTEP_API TuningRecord record_of(const ConfigSearch& search, TuningRecord record);

}  // namespace jitstep::jit
