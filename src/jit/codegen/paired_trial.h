// Whether a configuration is faster than the default: times of both in turn, and what they prove. Knows no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// How much is measured before something is believed.
struct TrialRules {
  int least_rounds = 7;  // of a trial
  int most_rounds = 31;  // then it stays open
  double hopeless =
      1.5;  // a configuration that takes so many times as long is left after three rounds
  double least_gain = 0.01;  // below, a configuration does not count as faster
};

/// Times of a configuration beside those of the default in the same rounds. `ratio` is the median over the rounds of its
/// time over the default's, `spread` how far that median may be off: 1.58 times the distance of the quartiles over
/// the root of the rounds, as of the notches of a box plot (McGill, Tukey, Larsen, The American Statistician 1978).
struct TrialTimes {
  int rounds = 0;
  double seconds = 0;        // median, of one step
  double usual_seconds = 0;  // the default's
  double ratio = 1;
  double spread = 0;

  bool operator==(const TrialTimes&) const = default;
};

/// What became of a candidate.
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
/// The inverse; nothing for other words.
JITSTEP_API std::optional<TrialStatus> trial_status(const std::string& word);

/// One candidate and what became of it.
struct JITSTEP_API Trial {
  KernelConfig config = {};
  TrialStatus status = TrialStatus::timed;
  std::string detail = {};  // of a failure: a line
  TrialTimes times = {};    // where it was timed

  bool operator==(const Trial&) const = default;
};

/// One trial as it goes on. Each round takes the time of both; which comes first changes from round to round, so
/// that a machine that grows slower or faster favours nobody.
class JITSTEP_API PairedTrial {
 public:
  explicit PairedTrial(const TrialRules& rules = {}) : rules_(rules) {}

  /// Whether the default is to run next, not the configuration.
  bool usual_is_next() const;
  /// The seconds of what ran.
  void record(double seconds);
  /// Whether enough rounds have been made: the configuration is known to be faster by the least gain, or known not to be,
  /// or it is hopeless, or there were as many as there may be. Never in the midst of a round.
  bool done() const;
  TrialTimes times() const;

 private:
  TrialRules rules_;
  std::vector<double> default_config_, tried_;
};

/// Whether the times prove that the configuration is faster than the default by the least gain, or leave it open.
JITSTEP_API bool proves_gain(const TrialTimes& times, const TrialRules& rules = {});
JITSTEP_API bool may_gain(const TrialTimes& times, const TrialRules& rules = {});

}  // namespace jitstep::jit
