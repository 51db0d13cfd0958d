#include "jit/search/config_search.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <random>

#include "jit/tuning/tuning_samples.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr KernelConfig kDefault = {1, 1, 256, 16};

KernelConfig with_leaves(int chunk) {
  KernelConfig config = kDefault;
  config.leaves_per_item = chunk;
  return config;
}

// A device with given times per `leaves_per_item`, and one clock for all kernels.
struct FakeDevice {
  std::map<int, double> seconds;
  std::map<int, int> runs = {};

  double run(const KernelConfig& config) {
    ++runs[config.leaves_per_item];
    return seconds.at(config.leaves_per_item);
  }
  void play(ConfigSearch& search) {
    while (!search.done()) search.record(run(search.next()));
  }
};

TEST(ConfigSearch, TheFastestWinsAfterAConfirmationOfAllRounds) {
  FakeDevice device{{{16, 1}, {4, 0.9}, {64, 0.8}, {256, 1.2}}};
  ConfigSearch search(kDefault, in_order({with_leaves(4), with_leaves(64), with_leaves(256)}));
  device.play(search);
  EXPECT_EQ(search.outcome(), Outcome::won);
  EXPECT_EQ(search.chosen(), with_leaves(64));
  EXPECT_EQ(search.trials().size(), 3u);
  const TrialRules rules;
  EXPECT_EQ(device.runs[4], rules.least_rounds);
  EXPECT_EQ(device.runs[64], rules.least_rounds + rules.most_rounds);
  ASSERT_TRUE(search.confirmation());
  EXPECT_EQ(search.confirmation()->rounds, rules.most_rounds);
  EXPECT_DOUBLE_EQ(search.confirmation()->ratio, 0.8);
  EXPECT_EQ(search.next(), with_leaves(64)) << "continues with the winner";
}

TEST(ConfigSearch, TheDefaultStaysIfItIsTheFastest) {
  FakeDevice device{{{16, 1}, {4, 1.1}, {64, 1}}};
  ConfigSearch search(kDefault, in_order({with_leaves(4), with_leaves(64)}));
  device.play(search);
  EXPECT_EQ(search.outcome(), Outcome::default_config);
  EXPECT_EQ(search.chosen(), kDefault);
  EXPECT_FALSE(search.confirmation());
}

TEST(ConfigSearch, ALuckyTrialDoesNotWin) {
  ConfigSearch search(kDefault, in_order({with_leaves(64)}));
  int runs = 0;
  while (!search.done()) {
    const bool tried = search.next() == with_leaves(64);
    runs += tried;
    search.record(tried && runs <= TrialRules().least_rounds ? 0.5 : 1);
  }
  EXPECT_EQ(search.outcome(), Outcome::unresolved);
  EXPECT_EQ(search.chosen(), kDefault);
}

TEST(ConfigSearch, NoiseRarelyWinsHoweverManyCandidates) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> seconds(0.9, 1.1);
  std::vector<KernelConfig> many;
  for (int i = 0; i < 12; ++i) many.push_back(with_leaves(32 << i));
  int won = 0;
  for (int i = 0; i < 100; ++i) {
    ConfigSearch search(kDefault, in_order(many));
    while (!search.done()) search.record(seconds(random));
    won += search.outcome() == Outcome::won;
  }
  EXPECT_LE(won, 8);
}

TEST(ConfigSearch, ACandidateIsAcceptedOnceAndRejectedOnesAreRecorded) {
  ConfigSearch search(kDefault, in_order({with_leaves(4), with_leaves(64)}));
  EXPECT_EQ(search.next(), kDefault);
  EXPECT_FALSE(search.is_new());
  search.record(1);
  EXPECT_EQ(search.next(), with_leaves(4));
  EXPECT_TRUE(search.is_new());
  search.reject(TrialStatus::spills, "8 bytes");
  ASSERT_EQ(search.trials().size(), 1u);
  EXPECT_EQ(search.trials()[0].status, TrialStatus::spills);
  EXPECT_EQ(search.trials()[0].detail, "8 bytes");
  search.record(1);
  search.record(1);
  EXPECT_EQ(search.next(), with_leaves(64));
  EXPECT_FALSE(search.is_new());
}

TEST(ConfigSearch, ResumesAnInterruptedSearch) {
  FakeDevice device{{{16, 1}, {4, 1.4}, {64, 0.8}}};
  ConfigSearch first(kDefault, in_order({with_leaves(4), with_leaves(64)}));
  while (first.trials().empty()) first.record(device.run(first.next()));
  ConfigSearch second(kDefault, in_order({with_leaves(4), with_leaves(64)}), {}, {},
                      first.trials());
  device.play(second);
  EXPECT_EQ(device.runs[4], TrialRules().least_rounds) << "tried once";
  EXPECT_EQ(second.chosen(), with_leaves(64));
}

TEST(ConfigSearch, StopKeepsTheBestCandidateSoFar) {
  FakeDevice device{{{16, 1}, {4, 0.9}, {64, 0.8}}};
  ConfigSearch search(kDefault, in_order({with_leaves(4), with_leaves(64)}));
  while (search.trials().empty()) search.record(device.run(search.next()));
  search.stop();
  device.play(search);
  EXPECT_EQ(search.chosen(), with_leaves(4));
  EXPECT_EQ(device.runs.count(64), 0u);
}

TEST(ConfigSearch, WithoutATrialThereIsNoOutcome) {
  ConfigSearch search(kDefault, in_order({with_leaves(4)}));
  search.stop();
  EXPECT_TRUE(search.done());
  EXPECT_EQ(search.outcome(), Outcome::unresolved);
  EXPECT_EQ(search.chosen(), kDefault);
}

TEST(ConfigSearch, ProcessesThatAgreeChooseAlikeWhateverTheyMeasure) {
  int calls = 0;
  const Agreement of_the_first = [&](const std::vector<double>& own) -> std::vector<double> {
    ++calls;
    return own.size() == 2 ? std::vector<double>{0.7, 0.9} : std::vector<double>{0.7};
  };
  FakeDevice device{{{16, 1}, {4, 1.1}, {64, 0.8}}};  // 64 is faster here
  ConfigSearch search(kDefault, in_order({with_leaves(4), with_leaves(64)}), {}, of_the_first);
  device.play(search);
  EXPECT_EQ(search.chosen(), with_leaves(4));
  EXPECT_EQ(search.outcome(), Outcome::won);
  EXPECT_EQ(calls, 2);
}

TEST(ConfigSearch, AProcessThatCannotRunACandidateTakesItsTrialsWithTheDefault) {
  std::array<std::vector<std::vector<double>>, 2> given;
  const auto agreement = [&](std::size_t process) {
    return [&given, process](const std::vector<double>& own) {
      given[process].push_back(own);
      return own.size() == 2 ? std::vector<double>{0.7, 0.9} : std::vector<double>{0.7};
    };
  };
  TrialRules rules;
  rules.least_rounds = rules.most_rounds = 6;
  rules.hopeless = std::numeric_limits<double>::infinity();
  const auto candidates = in_order({with_leaves(4), with_leaves(64)});
  ConfigSearch able(kDefault, candidates, rules, agreement(0));
  ConfigSearch unable(kDefault, candidates, rules, agreement(1));
  FakeDevice device{{{16, 1}, {4, 0.8}, {64, 0.9}}}, other = device;
  while (!able.done()) {
    ASSERT_FALSE(unable.done());
    if (unable.is_new() && unable.next() == with_leaves(4))
      unable.reject(TrialStatus::spills, "8 bytes");
    able.record(device.run(able.next()));
    unable.record(other.run(unable.next()));
  }
  EXPECT_TRUE(unable.done());
  EXPECT_EQ(able.chosen(), with_leaves(4));
  EXPECT_EQ(unable.next(), kDefault);
  EXPECT_EQ(unable.outcome(), Outcome::unresolved);
  EXPECT_EQ(other.runs.count(4), 0u);
  EXPECT_EQ(unable.trials()[0].status, TrialStatus::spills);
  ASSERT_EQ(given[1].size(), 2u);
  EXPECT_EQ(given[1][0], (std::vector<double>{1e9, 0.9}));
  EXPECT_EQ(given[1][1], std::vector<double>{1e9});
}

TEST(ConfigSearch, AnAgreementThatThrowsEndsTheSearchWithTheDefault) {
  int calls = 0;
  const Agreement fails = [&](const std::vector<double>& own) {
    if (++calls == 2) throw Error("a process has ended");
    return own;
  };
  FakeDevice device{{{16, 1}, {4, 0.5}}};
  ConfigSearch search(kDefault, in_order({with_leaves(4)}), {}, fails);
  EXPECT_THROW(device.play(search), Error);
  EXPECT_TRUE(search.done());
  EXPECT_EQ(search.chosen(), kDefault);
}

TEST(ConfigSearch, AnAgreementWithTooFewNumbersIsAnError) {
  const Agreement wrong = [](const std::vector<double>&) { return std::vector<double>(); };
  FakeDevice device{{{16, 1}, {4, 1}}};
  ConfigSearch search(kDefault, in_order({with_leaves(4)}), {}, wrong);
  EXPECT_THROW(device.play(search), Error);
}

}  // namespace
}  // namespace jitstep::jit
