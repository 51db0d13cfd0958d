#include "jit/search/paired_trial.h"

#include <algorithm>
#include <cmath>

#include "jit/base/numbers.h"

namespace jitstep::jit {
namespace {

std::vector<double> ratios(const std::vector<double>& tried,
                           const std::vector<double>& default_config) {
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(tried.size(), default_config.size()); ++i)
    out.push_back(tried[i] / default_config[i]);
  return out;
}

}  // namespace

bool PairedTrial::default_is_next() const {
  if (default_config_.size() != tried_.size()) return default_config_.size() < tried_.size();
  return default_config_.size() % 2 == 0;
}

void PairedTrial::record(double seconds) {
  // Avoids a division by zero if the clock has a low resolution.
  (default_is_next() ? default_config_ : tried_).push_back(std::max(seconds, 1e-9));
}

bool PairedTrial::done() const {
  const auto rounds = static_cast<int>(default_config_.size());
  if (default_config_.size() != tried_.size() || rounds < 4 || rounds % 2 != 0) return false;
  const TrialTimes now = times();
  if (now.ratio > rules_.hopeless) return true;
  if (rounds < rules_.least_rounds) return false;
  const bool open = may_gain(now, rules_) && !proves_gain(now, rules_);
  return !open || rounds >= rules_.most_rounds;
}

TrialTimes PairedTrial::times() const {
  const std::vector<double> of_rounds = ratios(tried_, default_config_);
  if (of_rounds.empty()) return {};
  const double quartiles = quantile(of_rounds, 0.75) - quantile(of_rounds, 0.25);
  const auto rounds = static_cast<double>(of_rounds.size());
  return {.rounds = static_cast<int>(of_rounds.size()),
          .seconds = quantile(tried_, 0.5),
          .default_seconds = quantile(default_config_, 0.5),
          .ratio = quantile(of_rounds, 0.5),
          .spread = 1.58 * quartiles / std::sqrt(rounds)};
}

bool proves_gain(const TrialTimes& times, const TrialRules& rules) {
  return times.rounds > 0 && times.ratio + times.spread < 1 - rules.least_gain;
}

bool may_gain(const TrialTimes& times, const TrialRules& rules) {
  return times.rounds > 0 && times.ratio - times.spread < 1 - rules.least_gain;
}

}  // namespace jitstep::jit
