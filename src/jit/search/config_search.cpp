#include "jit/search/config_search.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr double kFailed = 1e9;  // finite, because an Agreement may add these numbers

// The upper bound of the ratio. It is small only if the ratio is reliably small.
double score(const TrialTimes& times) { return times.ratio + times.spread; }

double score(const Trial& trial) {
  return trial.status == TrialStatus::timed && trial.times.rounds > 0 ? score(trial.times)
                                                                      : kFailed;
}

TrialRules at_full_length(TrialRules rules) {
  rules.least_rounds = rules.most_rounds;
  return rules;
}

}  // namespace

Strategy in_order(std::vector<KernelConfig> candidates) {
  return [candidates = std::move(candidates)](
             const std::vector<Trial>& before) -> std::optional<KernelConfig> {
    for (const KernelConfig& one : candidates) {
      const auto is_it = [&](const Trial& trial) { return trial.config == one; };
      if (std::none_of(before.begin(), before.end(), is_it)) return one;
    }
    return {};
  };
}

ConfigSearch::ConfigSearch(const KernelConfig& default_config, Strategy strategy,
                           const TrialRules& rules, Agreement agree, std::vector<Trial> before)
    : default_config_(default_config),
      strategy_(std::move(strategy)),
      rules_(rules),
      agree_(std::move(agree)),
      trials_(std::move(before)),
      running_(rules) {
  take_candidate();
}

const KernelConfig& ConfigSearch::next() const {
  return done() ? chosen() : tries_candidate() ? candidate_ : default_config_;
}

bool ConfigSearch::is_new() const {
  return phase_ == Phase::candidates && tries_candidate() && running_.times().rounds == 0;
}

bool ConfigSearch::tries_candidate() const {
  return !done() && !unusable_ && !running_.default_is_next();
}

void ConfigSearch::record(double seconds) {
  if (done()) return;
  running_.record(seconds);
  if (running_.done()) end_trial();
}

void ConfigSearch::reject(TrialStatus status, const std::string& detail) {
  if (agree_) {
    unusable_ = Trial{.config = candidate_, .status = status, .detail = detail};
    return;
  }
  if (phase_ == Phase::confirmation) {
    phase_ = Phase::done;
    return;
  }
  trials_.push_back({.config = candidate_, .status = status, .detail = detail});
  take_candidate();
}

void ConfigSearch::leave_out(const std::string& cause) {
  is_cut_ = true;
  left_out_.emplace(candidate_, cause);
  reject(TrialStatus::exceeds_resources, cause);
}

void ConfigSearch::stop() {
  stopped_ = true;
  if (phase_ != Phase::candidates) return;
  is_cut_ = true;
  choose_best();
}

void ConfigSearch::end_trial() {
  if (phase_ == Phase::candidates) {
    trials_.push_back(unusable_.value_or(Trial{.config = candidate_, .times = running_.times()}));
    return take_candidate();
  }
  phase_ = Phase::done;  // also if the Agreement throws
  confirmation_ = running_.times();
  won_ = agreed_score(unusable_ ? kFailed : score(*confirmation_)) < 1 - rules_.least_gain;
}

void ConfigSearch::take_candidate() {
  const auto next = stopped_ ? std::nullopt : strategy_(trials_);
  if (!next) return choose_best();
  candidate_ = *next;
  unusable_.reset();
  running_ = PairedTrial(rules_);
}

void ConfigSearch::choose_best() {
  phase_ = Phase::done;
  std::vector<double> scores;
  for (const Trial& trial : trials_) scores.push_back(score(trial));
  if (agree_) {
    std::vector<double> agreed = agree_(scores);
    if (agreed.size() != scores.size())
      throw Error(str_cat("the Agreement returned ", agreed.size(), " numbers for ", scores.size(),
                          " trials. It must return one per trial, in the same order."));
    scores = std::move(agreed);
  }
  const auto best = std::min_element(scores.begin(), scores.end());
  if (best == scores.end() || *best >= 1 - rules_.least_gain) return;
  const Trial& winner = trials_[static_cast<std::size_t>(best - scores.begin())];
  candidate_ = winner.config;
  unusable_.reset();
  if (winner.status != TrialStatus::timed) unusable_ = winner;  // others can run it
  running_ = PairedTrial(at_full_length(rules_));
  phase_ = Phase::confirmation;
}

double ConfigSearch::agreed_score(double own) const {
  if (!agree_) return own;
  const std::vector<double> agreed = agree_({own});
  if (agreed.size() != 1)
    throw Error(str_cat("the Agreement returned ", agreed.size(),
                        " numbers for one trial. It must return one."));
  return agreed.front();
}

Outcome ConfigSearch::outcome() const {
  if (won_ && !unusable_) return Outcome::won;
  if (won_ || is_cut_ || trials_.empty()) return Outcome::unresolved;
  const auto open = [&](const Trial& trial) {
    return trial.status == TrialStatus::timed && may_gain(trial.times, rules_);
  };
  return std::any_of(trials_.begin(), trials_.end(), open) ? Outcome::unresolved
                                                           : Outcome::default_config;
}

const KernelConfig& ConfigSearch::chosen() const {
  return won_ && !unusable_ ? candidate_ : default_config_;
}

TuningRecord record_of(const ConfigSearch& search, TuningRecord record) {
  record.outcome = search.outcome();
  record.config = search.outcome() == Outcome::won ? search.chosen() : search.default_config();
  record.trials = search.trials();
  std::erase_if(record.trials,
                [&](const Trial& trial) { return search.left_out().contains(trial.config); });
  if (record.outcome != Outcome::won) return record;
  record.gain = 1 / search.confirmation()->ratio;
  record.spread = search.confirmation()->spread;
  return record;
}

}  // namespace jitstep::jit
