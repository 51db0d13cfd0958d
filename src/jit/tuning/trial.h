// Results of trials, as tuning records store them. src/jit/search runs the trials.
#pragma once

#include <array>
#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

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

/// A measurement of TrialTimes by its name in tuning records.
struct TrialTimeField {
  const char* name;
  double TrialTimes::*member;
};
inline constexpr std::array kTrialTimeFields = {
    TrialTimeField{"seconds", &TrialTimes::seconds},
    TrialTimeField{"default_seconds", &TrialTimes::default_seconds},
    TrialTimeField{"ratio", &TrialTimes::ratio}, TrialTimeField{"spread", &TrialTimes::spread}};

/// Result of a candidate.
enum class TrialStatus {
  timed,
  does_not_compile,
  spills,
  exceeds_resources,
  wrong_bits,
  timed_out
};

/// The names of TrialStatus in tuning records, in order of declaration.
inline constexpr std::array kTrialStatusNames = {
    "timed", "does not compile", "spills", "exceeds resources", "wrong bits", "timed out"};
JITSTEP_API std::string to_string(TrialStatus status);

/// One candidate and its result.
struct JITSTEP_API Trial {
  KernelConfig config = {};
  TrialStatus status = TrialStatus::timed;
  std::string detail = {};  // one line about a failure
  TrialTimes times = {};    // if the status is `timed`

  bool operator==(const Trial&) const = default;
};

/// Result of a set of trials: a configuration is faster than the default, none is, or the trials cannot decide.
enum class Outcome { won, default_config, unresolved };

/// The names of Outcome in tuning records, in order of declaration.
inline constexpr std::array kOutcomeNames = {"won", "default", "unresolved"};
JITSTEP_API std::string to_string(Outcome outcome);

}  // namespace jitstep::jit
