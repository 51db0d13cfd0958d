#include "tuning/tuner.h"

#include <algorithm>

#include "jit/base/interrupt.h"
#include "jit/base/text.h"
#include "jit/search/candidate_check.h"
#include "jit/tuning/tuning_files.h"
#include "tuning/clock.h"

namespace jitstep::tuning {
namespace {

using jit::TuningRecord;

class Session {
 public:
  Session(TuningDevice& device, const TunerOptions& options) : device_(device), options_(options) {
    if (!options_.clock) options_.clock = steady_seconds;
  }

  bool stopped() const { return options_.stopped && options_.stopped(); }
  double now() const { return options_.clock(); }

  // `until`: after this time, no further candidate starts.
  Tuned run(const Workload& workload, double until) {
    TuningRecord record = empty_record(workload);
    const auto before = earlier(record);
    if (before && before->complete && !options_.again)
      return {.workload = workload, .record = *before, .known = true};
    try {
      device_.begin(workload);
    } catch (const jit::Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      return {.workload = workload, .record = record, .problem = error.what()};
    }
    record.hardware = device_.hardware();
    const bool goes_on = before && !before->complete && !options_.again;
    const bool resumes = goes_on && before->strategy != jit::kInSteps;
    jit::ConfigSearch search =
        start(workload, resumes ? before->trials : std::vector<jit::Trial>());
    const bool has_won = goes_on && before->outcome == jit::Outcome::won;
    const jit::Problem problem = run_trials(search, record, has_won ? &*before : nullptr, until);
    return {.workload = workload,
            .record = record,
            .problem = problem.value_or(""),
            .finished = search.done()};
  }

 private:
  TuningRecord empty_record(const Workload& workload) {
    return {.kernel = workload.plan.name,
            .spec = to_string(workload.plan.spec),
            .size = workload.size(),
            .hardware = device_.hardware(),
            .versions = device_.versions(workload.plan),
            .strategy = options_.strategy,
            .date = jit::today(),
            .config = jit::default_kernel_config(workload.plan, device_.hardware().target)};
  }

  // Whole steps were timed. In those, a gain of one of several kernels may have been too small.
  static bool is_of_this_kernel(const TuningRecord& old) {
    return old.strategy != jit::kInSteps || old.outcome == jit::Outcome::won;
  }

  std::optional<TuningRecord> earlier(const TuningRecord& record) const {
    if (options_.records.empty()) return {};
    for (TuningRecord& old : jit::read_records(options_.records).records)
      if (record.replaces(old) && is_of_this_kernel(old)) return std::move(old);
    return {};
  }

  jit::ConfigSearch start(const Workload& workload, std::vector<jit::Trial> before) {
    const auto space = jit::config_space(workload.plan, device_.hardware());
    return {jit::default_kernel_config(workload.plan, space.target),
            make_strategy(options_.strategy, space, device_.model(workload)),
            options_.rules,
            {},
            std::move(before)};
  }

  // `winner`: the record of an earlier search that these trials continue, or null. Its configuration counts until the
  // end. Returns why the last record is not stored, or why a candidate could not be checked. Each record has all trials,
  // so a later one mends an earlier failure.
  jit::Problem run_trials(jit::ConfigSearch& search, TuningRecord& record,
                          const TuningRecord* winner, double until) {
    jit::Problem unwritten;
    std::size_t written = search.trials().size();
    const auto store = [&] {
      record = record_of(search, std::move(record));
      record.complete = search.done() && !search.is_cut();
      if (winner != nullptr && !record.complete && !search.confirmation())
        keep_choice(*winner, record);
      written = search.trials().size();
      if (options_.on_trial) options_.on_trial(record);
      if (record.trials.empty() && !search.left_out().empty()) return;  // keep what is stored
      if (!options_.records.empty()) unwritten = jit::add_record(options_.records, record);
    };
    const auto store_new = [&] {
      if (search.trials().size() > written && !search.done()) store();
    };
    while (!search.done() && !stopped()) {
      if (search.is_new()) {
        jit::check_next(search, [&] { return device_.check(search.next()); });
        // Store the record now: a faulty candidate may have made the device unusable for the next one.
        store_new();
      }
      if (!search.done()) search.record(device_.seconds(search.next()));
      const bool trials_end =
          options_.most_trials > 0 &&
          search.trials().size() >= static_cast<std::size_t>(options_.most_trials);
      if (trials_end || now() > until) search.stop();
      store_new();
    }
    if (search.done()) store();
    const auto& left_out = search.left_out();
    if (unwritten || left_out.empty()) return unwritten;
    const std::string& cause = left_out.begin()->second;
    return jit::str_cat(jit::counted(left_out.size(), "candidate"),
                        " could not be checked: ", cause, cause.ends_with('.') ? "" : ".",
                        " The same command tries again.");
  }

  static void keep_choice(const TuningRecord& from, TuningRecord& to) {
    to.outcome = from.outcome;
    to.config = from.config;
    to.gain = from.gain;
    to.spread = from.spread;
  }

  TuningDevice& device_;
  TunerOptions options_;
};

}  // namespace

std::vector<Tuned> tune(const std::vector<Workload>& workloads, TuningDevice& device,
                        const TunerOptions& options) {
  Session session(device, options);
  const double end = session.now() + options.budget_seconds;
  std::vector<Tuned> all;
  for (std::size_t i = 0; i < workloads.size() && !session.stopped(); ++i) {
    const double left = std::max(0.0, end - session.now());
    all.push_back(session.run(workloads[i],
                              session.now() + left / static_cast<double>(workloads.size() - i)));
  }
  if (!all.empty() && session.stopped() && !all.back().finished) all.pop_back();
  return all;
}

}  // namespace jitstep::tuning
