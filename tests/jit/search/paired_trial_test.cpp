#include "jit/search/paired_trial.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>

namespace jitstep::jit {
namespace {

struct Times {
  std::function<double()> baseline, tried;
};

// A whole trial of two clocks. `rounds` of the result says how often each was read.
TrialTimes run(const Times& times, const TrialRules& rules = {}) {
  PairedTrial trial(rules);
  while (!trial.done()) trial.record(trial.default_is_next() ? times.baseline() : times.tried());
  return trial.times();
}

TrialTimes steady(double baseline, double tried) {
  return run({[=] { return baseline; }, [=] { return tried; }});
}

// Times around a mean, scattered by `share` of the mean.
std::function<double()> noisy(double mean, double share, std::mt19937_64& random) {
  return [=, &random] {
    return mean * std::uniform_real_distribution<double>(1 - share, 1 + share)(random);
  };
}

TEST(PairedTrial, SteadyClocksNeedTheFewestRounds) {
  const TrialTimes times = steady(2, 1);
  EXPECT_EQ(times.rounds, TrialRules().least_rounds);
  EXPECT_EQ(times.ratio, 0.5);
  EXPECT_EQ(times.seconds, 1);
  EXPECT_EQ(times.default_seconds, 2);
  EXPECT_EQ(times.spread, 0);
  EXPECT_TRUE(proves_gain(times));
  EXPECT_FALSE(may_gain(steady(1, 1)));
}

TEST(PairedTrial, AHopelessCandidateStopsAfterFourRounds) {
  EXPECT_EQ(steady(1, 2).rounds, 4);
  EXPECT_EQ(steady(1, 1.4).rounds, TrialRules().least_rounds);
}

TEST(PairedTrial, TheTwoAlternateInBeingFirst) {
  PairedTrial trial;
  std::string order;
  for (int i = 0; i < 8; ++i) {
    order += trial.default_is_next() ? 'd' : 'v';
    trial.record(1);
  }
  EXPECT_EQ(order, "dvvddvvd");
}

TEST(PairedTrial, AComputerThatSlowsDownFavorsNeither) {
  double clock = 1;
  const auto slower = [&] { return clock *= 1.02; };
  const TrialTimes times = run({slower, slower});
  EXPECT_NEAR(times.ratio, 1, 0.021);
  EXPECT_FALSE(proves_gain(times));
}

// For example, because a program does something else in each of them.
TEST(PairedTrial, ALongerEverySecondStepFavorsNeither) {
  std::mt19937_64 random(5);
  const auto noise = noisy(1, 0.003, random);
  for (const double odd : {1.05, 1.1, 0.9}) {
    int steps = 0;
    const auto step = [&] { return noise() * (steps++ % 2 == 1 ? odd : 1); };
    const TrialTimes times = run({step, step});
    EXPECT_NEAR(times.ratio, 1, 0.01) << odd;
    EXPECT_FALSE(proves_gain(times)) << odd;
  }
}

TEST(PairedTrial, ACostOfSwitchingBetweenBothHidesNoGain) {
  std::mt19937_64 random(5);
  const auto noise = noisy(1, 0.003, random);
  bool last_is_default = true;
  const auto step = [&](bool is_default, double seconds) {
    const double cost = std::exchange(last_is_default, is_default) == is_default ? 1 : 1.05;
    return noise() * cost * seconds;
  };
  TrialRules all;
  all.least_rounds = all.most_rounds;
  const TrialTimes times =
      run({[&] { return step(true, 1); }, [&] { return step(false, 0.94); }}, all);
  EXPECT_NEAR(times.ratio, 0.94, 0.01);
}

TEST(PairedTrial, NoiseTakesMoreRoundsAndRarelyLooksLikeAGain) {
  std::mt19937_64 random(5);
  TrialRules all;
  all.least_rounds = all.most_rounds;
  int proved = 0, at_length = 0, more = 0;
  for (int i = 0; i < 200; ++i) {
    const TrialTimes times = run({noisy(1, 0.1, random), noisy(1, 0.1, random)});
    proved += proves_gain(times);
    more += times.rounds > TrialRules().least_rounds;
    EXPECT_LE(times.rounds, TrialRules().most_rounds);
    at_length += proves_gain(run({noisy(1, 0.1, random), noisy(1, 0.1, random)}, all));
  }
  EXPECT_LE(proved, 50) << "by luck, since an early gain ends a trial";
  EXPECT_LE(at_length, 10) << "where all rounds are made";
  EXPECT_GT(more, 100);
}

TEST(PairedTrial, MoreRoundsFindAGainBelowTheNoiseOfOne) {
  std::mt19937_64 random(6);
  int proved = 0;
  for (int i = 0; i < 50; ++i)
    proved += proves_gain(run({noisy(1, 0.05, random), noisy(0.93, 0.05, random)}));
  EXPECT_GE(proved, 35);
}

TEST(PairedTrial, AnOutlierDoesNotCount) {
  int calls = 0;
  const TrialTimes times = run({[] { return 1.0; }, [&] { return ++calls == 2 ? 50.0 : 0.9; }});
  EXPECT_EQ(times.ratio, 0.9);
  EXPECT_TRUE(proves_gain(times));
}

TEST(PairedTrial, AClockThatStandsStillDoesNotDivideByZero) { EXPECT_EQ(steady(0, 0).ratio, 1); }

}  // namespace
}  // namespace jitstep::jit
