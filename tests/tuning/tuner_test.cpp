#include "tuning/tuner.h"

#include <algorithm>

#include "jit/fixtures.h"
#include "jit/tuning/tuning_files.h"
#include "tuning/fake_device.h"

namespace jitstep::tuning {
namespace {

using jit::KernelConfig;
using jit::Outcome;
using jit::Trial;
using jit::TrialStatus;
using testing::adamw_workload;
using testing::FakeDevice;

class TunerTest : public ::testing::Test {
 protected:
  TunerOptions options() {
    TunerOptions made{.strategy = "exhaustive", .budget_seconds = 1e9};
    made.records = folder / "cache/tuning.jsonl";
    made.clock = [this] { return device.clock; };
    return made;
  }
  Tuned tuned(const TunerOptions& with) { return tune({work}, device, with).at(0); }

  jit::testing::TemporaryFolder folder;
  FakeDevice device;
  Workload work = adamw_workload(1 << 20);
  const KernelConfig default_config = jit::default_kernel_config(work.plan, jit::Target::cpu());
};

double unrolled_is_faster(const KernelConfig& config) {
  return config.unroll == 1 ? 0.8e-3 : config.leaves_per_item == 64 ? 0.9e-3 : 1e-3;
}

TEST_F(TunerTest, EveryStrategyFindsTheFastestConfigAndStoresIt) {
  device.time = unrolled_is_faster;
  for (const std::string& strategy : strategy_names()) {
    TunerOptions with = options();
    with.strategy = strategy;
    with.again = true;
    const Tuned one = tuned(with);
    EXPECT_EQ(one.record.outcome, Outcome::won) << strategy;
    EXPECT_EQ(one.record.config.unroll, 1) << strategy;
    EXPECT_NEAR(one.record.gain, 1.25, 1e-9) << strategy;
    EXPECT_TRUE(one.record.complete);
    EXPECT_EQ(one.record.strategy, strategy);
    const auto stored = jit::read_records(with.records).records;
    ASSERT_EQ(stored.size(), 1u);
    EXPECT_EQ(stored[0].config, one.record.config);
  }
}

TEST_F(TunerTest, LocalSearchTriesFewerConfigsThanExhaustive) {
  TunerOptions with = options();
  with.strategy = "local";
  const std::size_t few = tuned(with).record.trials.size();
  const std::size_t all = jit::config_space(work.plan, device.hardware()).all().size() - 1;
  EXPECT_LT(few, all);
  with.strategy = "exhaustive";
  with.again = true;
  EXPECT_EQ(tuned(with).record.trials.size(), all);
}

TEST_F(TunerTest, FailedCandidatesAreRecordedAndNeverTimed) {
  const auto all = jit::config_space(work.plan, device.hardware()).all();
  const std::vector<TrialStatus> failures = {TrialStatus::does_not_compile, TrialStatus::spills,
                                             TrialStatus::exceeds_resources,
                                             TrialStatus::wrong_bits, TrialStatus::timed_out};
  for (std::size_t i = 0; i < failures.size(); ++i) device.failing[all[i + 1]] = failures[i];
  device.time = [&](const KernelConfig& v) { return device.failing.contains(v) ? 1e-9 : 1e-3; };
  const Tuned one = tuned(options());
  EXPECT_EQ(one.record.outcome, Outcome::default_config);
  for (const auto& [config, status] : device.failing) {
    EXPECT_EQ(device.runs.count(config), 0u);
    const auto same = [&, wanted = config](const Trial& t) { return t.config == wanted; };
    const auto& trials = one.record.trials;
    const auto found = std::find_if(trials.begin(), trials.end(), same);
    ASSERT_NE(found, trials.end());
    EXPECT_EQ(found->status, status);
    EXPECT_EQ(found->detail, "scripted failure");
  }
}

// A candidate that accesses foreign memory may break a GPU. The next tuner must not start with it again.
TEST_F(TunerTest, ACandidateThatBreaksTheDeviceIsRecordedFirst) {
  for (const KernelConfig& one : jit::config_space(work.plan, device.is).all())
    device.failing[one] = TrialStatus::does_not_compile;
  device.time = [&](const KernelConfig&) {
    return device.checked.empty() ? 1e-3 : throw jit::Error("the device is gone");
  };
  EXPECT_THROW(tuned(options()), jit::Error);
  const auto stored = jit::read_records(options().records).records;
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_FALSE(stored[0].complete);
  ASSERT_FALSE(stored[0].trials.empty());
  EXPECT_EQ(stored[0].trials.front().status, TrialStatus::does_not_compile);
}

TEST_F(TunerTest, ACandidateIsCheckedOnceBeforeItsFirstRun) {
  tuned(options());
  for (const auto& [config, runs] : device.runs)
    EXPECT_EQ(device.checked[config], config == default_config ? 0 : 1) << jit::to_string(config);
}

TEST_F(TunerTest, ACompleteRecordIsNotMeasuredAgainUnlessAsked) {
  tuned(options());
  device.runs.clear();
  EXPECT_TRUE(tuned(options()).known);
  EXPECT_TRUE(device.runs.empty());
  TunerOptions again = options();
  again.again = true;
  EXPECT_FALSE(tuned(again).known);
  EXPECT_FALSE(device.runs.empty());
  device.is.units = 96;
  EXPECT_FALSE(tuned(options()).known) << "other hardware";
  jit::TuningRecord of_steps = tuned(options()).record;
  of_steps.strategy = jit::kInSteps;
  ASSERT_NE(of_steps.outcome, Outcome::won);
  ASSERT_EQ(jit::add_record(options().records, of_steps), std::nullopt);
  EXPECT_FALSE(tuned(options()).known) << "times of whole steps";
}

TEST_F(TunerTest, ACandidateThatCouldNotBeCheckedIsTriedInTheNextRun) {
  device.time = unrolled_is_faster;
  tuned(options());
  const std::size_t all = device.checked.size();
  const KernelConfig faulty = device.checked.begin()->first;
  TunerOptions again = options();
  again.again = true;
  device.checked.clear();
  device.on_full_disk = faulty;
  const Tuned partial = tuned(again);
  EXPECT_NE(partial.problem.find("the disk is full"), std::string::npos) << partial.problem;
  EXPECT_EQ(device.checked.size(), all) << "the others are tried";
  EXPECT_FALSE(partial.record.complete);
  device.on_full_disk.reset();
  device.checked.clear();
  const Tuned complete = tuned(options());
  EXPECT_EQ(complete.problem, "");
  EXPECT_TRUE(complete.record.complete);
  EXPECT_EQ(device.checked.size(), 1u);
  EXPECT_EQ(device.checked.count(faulty), 1u);
}

TEST_F(TunerTest, AStoppedRunContinuesWithoutLosingOrRepeatingTrials) {
  device.time = unrolled_is_faster;
  TunerOptions with = options();
  int trials = 0;
  with.on_trial = [&](const jit::TuningRecord&) { ++trials; };
  with.stopped = [&] { return trials >= 3; };
  EXPECT_TRUE(tune({work, adamw_workload(4096)}, device, with).empty());
  const auto stored = jit::read_records(with.records).records;
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_FALSE(stored[0].complete);
  EXPECT_EQ(stored[0].trials.size(), 3u);
  device.runs.clear();
  const Tuned one = tuned(options());
  EXPECT_EQ(one.record.outcome, Outcome::won);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one.record.trials[static_cast<std::size_t>(i)].config, stored[0].trials[i].config);
    const bool is_winner = stored[0].trials[i].config == one.record.config;
    EXPECT_EQ(device.runs.contains(stored[0].trials[i].config), is_winner) << "its confirmation";
  }
  EXPECT_EQ(jit::read_records(with.records).records.size(), 1u);
}

TEST_F(TunerTest, TheBudgetEndsTheTrialsAndKeepsTheBestSoFar) {
  device.time = unrolled_is_faster;
  TunerOptions with = options();
  with.budget_seconds = 0.05;  // about three trials of eight rounds
  const Tuned one = tuned(with);
  EXPECT_FALSE(one.record.complete);
  EXPECT_LT(one.record.trials.size(), 6u);
  EXPECT_GE(one.record.trials.size(), 1u);
  with.budget_seconds = 1e9;
  with.again = true;
  with.most_trials = 2;
  EXPECT_EQ(tuned(with).record.trials.size(), 2u);
}

TEST_F(TunerTest, ALargerBudgetContinuesTheTrialsOfASmallerOne) {
  TunerOptions with = options();
  with.most_trials = 2;
  const Tuned few = tuned(with);
  EXPECT_EQ(few.record.outcome, Outcome::unresolved) << "other candidates may be faster";
  with.most_trials = 0;
  const Tuned all = tuned(with);
  EXPECT_FALSE(all.known);
  EXPECT_TRUE(all.record.complete);
  ASSERT_GT(all.record.trials.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(all.record.trials[i].config, few.record.trials[i].config);
  EXPECT_TRUE(tuned(with).known);
}

// Steps use the winner of the first trials, until the search has ended.
TEST_F(TunerTest, AWinnerCountsWhileOthersAreTried) {
  device.time = unrolled_is_faster;
  TunerOptions with = options();
  with.strategy = "exhaustive";
  std::vector<KernelConfig> winners;
  for (with.most_trials = 1; winners.empty(); ++with.most_trials) {
    const Tuned one = tuned(with);
    ASSERT_FALSE(one.record.complete);
    if (one.record.outcome == Outcome::won) winners.push_back(one.record.config);
  }
  with.most_trials = 0;
  with.on_trial = [&](const jit::TuningRecord& record) {
    if (record.complete) return;
    EXPECT_EQ(record.config, winners[0]);
    EXPECT_EQ(record.outcome, Outcome::won);
  };
  EXPECT_TRUE(tuned(with).record.complete);
}

TEST_F(TunerTest, TheBudgetIsSharedByTheWorkloads) {
  TunerOptions with = options();
  with.budget_seconds = 0.1;
  const auto all = tune({work, adamw_workload(4096), adamw_workload(64)}, device, with);
  ASSERT_EQ(all.size(), 3u);
  for (const Tuned& one : all) EXPECT_GE(one.record.trials.size(), 1u);
}

TEST_F(TunerTest, AWorkloadThatDoesNotFitIsReportedAndTheOthersAreTuned) {
  device.too_large = work.name();
  const auto all = tune({work, adamw_workload(4096)}, device, options());
  EXPECT_EQ(all[0].problem, "too much scratch");
  EXPECT_EQ(all[1].problem, "");
  EXPECT_EQ(jit::read_records(options().records).records.size(), 1u);
}

TEST_F(TunerTest, AResultWhoseRecordCannotBeStoredHasItsTrialsAndTheReason) {
  device.time = unrolled_is_faster;
  TunerOptions with = options();
  with.records = "/proc/none/tuning.jsonl";
  const auto all = tune({work, adamw_workload(4096)}, device, with);
  ASSERT_EQ(all.size(), 2u);
  for (const Tuned& one : all) {
    EXPECT_NE(one.problem, "");
    EXPECT_EQ(one.record.config.unroll, 1);
    EXPECT_TRUE(one.finished);
  }
}

}  // namespace
}  // namespace jitstep::tuning
