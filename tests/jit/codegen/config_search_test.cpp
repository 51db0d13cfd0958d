#include "jit/codegen/config_search.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "jit/codegen/tuning_samples.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr KernelConfig kUsual = {1, 1, 256, 16};

KernelConfig with_chunk(int chunk) {
  KernelConfig config = kUsual;
  config.leaves_per_item = chunk;
  return config;
}

// A device whose times are recorded: by chunk, and one clock for all.
struct FakeDevice {
  std::map<int, double> seconds;
  std::map<int, int> runs = {};

  double run(const KernelConfig& config) {
    ++runs[config.leaves_per_item];
    return seconds.at(config.leaves_per_item);
  }
  void play(ConfigSearch& tournament) {
    while (!tournament.done()) tournament.record(run(tournament.next()));
  }
};

TEST(ConfigSearch, TheFastestWinsAfterASecondTrialOfAllRounds) {
  FakeDevice device{{{16, 1}, {4, 0.9}, {64, 0.8}, {256, 1.2}}};
  ConfigSearch tournament(kUsual, in_order({with_chunk(4), with_chunk(64), with_chunk(256)}));
  device.play(tournament);
  EXPECT_EQ(tournament.outcome(), Outcome::won);
  EXPECT_EQ(tournament.chosen(), with_chunk(64));
  EXPECT_EQ(tournament.trials().size(), 3u);
  const TrialRules rules;
  EXPECT_EQ(device.runs[4], rules.least_rounds);
  EXPECT_EQ(device.runs[64], rules.least_rounds + rules.most_rounds);
  ASSERT_TRUE(tournament.confirmation());
  EXPECT_EQ(tournament.confirmation()->rounds, rules.most_rounds);
  EXPECT_DOUBLE_EQ(tournament.confirmation()->ratio, 0.8);
  EXPECT_EQ(tournament.next(), with_chunk(64)) << "goes on with the winner";
}

TEST(ConfigSearch, TheDefaultStaysWhereItIsTheFastest) {
  FakeDevice device{{{16, 1}, {4, 1.1}, {64, 1}}};
  ConfigSearch tournament(kUsual, in_order({with_chunk(4), with_chunk(64)}));
  device.play(tournament);
  EXPECT_EQ(tournament.outcome(), Outcome::default_config);
  EXPECT_EQ(tournament.chosen(), kUsual);
  EXPECT_FALSE(tournament.confirmation());
}

TEST(ConfigSearch, ALuckyTrialDoesNotWin) {
  ConfigSearch tournament(kUsual, in_order({with_chunk(64)}));
  int runs = 0;
  while (!tournament.done()) {
    const bool tried = tournament.next() == with_chunk(64);
    runs += tried;
    tournament.record(tried && runs <= TrialRules().least_rounds ? 0.5 : 1);
  }
  EXPECT_EQ(tournament.outcome(), Outcome::unresolved);
  EXPECT_EQ(tournament.chosen(), kUsual);
}

TEST(ConfigSearch, NoiseSeldomWinsHoweverManyAreTried) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> seconds(0.9, 1.1);
  std::vector<KernelConfig> many;
  for (int i = 0; i < 12; ++i) many.push_back(with_chunk(32 << i));
  int won = 0;
  for (int i = 0; i < 100; ++i) {
    ConfigSearch tournament(kUsual, in_order(many));
    while (!tournament.done()) tournament.record(seconds(random));
    won += tournament.outcome() == Outcome::won;
  }
  EXPECT_LE(won, 8);
}

TEST(ConfigSearch, ACandidateIsNewOnceAndWhatIsDroppedIsRecorded) {
  ConfigSearch tournament(kUsual, in_order({with_chunk(4), with_chunk(64)}));
  EXPECT_EQ(tournament.next(), kUsual);
  EXPECT_FALSE(tournament.is_new());
  tournament.record(1);
  EXPECT_EQ(tournament.next(), with_chunk(4));
  EXPECT_TRUE(tournament.is_new());
  tournament.reject(TrialStatus::spills, "8 bytes");
  ASSERT_EQ(tournament.trials().size(), 1u);
  EXPECT_EQ(tournament.trials()[0].status, TrialStatus::spills);
  EXPECT_EQ(tournament.trials()[0].detail, "8 bytes");
  tournament.record(1);
  tournament.record(1);
  EXPECT_EQ(tournament.next(), with_chunk(64));
  EXPECT_FALSE(tournament.is_new());
}

TEST(ConfigSearch, GoesOnWhereOneWasInterrupted) {
  FakeDevice device{{{16, 1}, {4, 1.4}, {64, 0.8}}};
  ConfigSearch first(kUsual, in_order({with_chunk(4), with_chunk(64)}));
  while (first.trials().empty()) first.record(device.run(first.next()));
  ConfigSearch second(kUsual, in_order({with_chunk(4), with_chunk(64)}), {}, {}, first.trials());
  device.play(second);
  EXPECT_EQ(device.runs[4], TrialRules().least_rounds) << "tried once";
  EXPECT_EQ(second.chosen(), with_chunk(64));
}

TEST(ConfigSearch, EnoughLeavesTheBestOfThoseThatWereTried) {
  FakeDevice device{{{16, 1}, {4, 0.9}, {64, 0.8}}};
  ConfigSearch tournament(kUsual, in_order({with_chunk(4), with_chunk(64)}));
  while (tournament.trials().empty()) tournament.record(device.run(tournament.next()));
  tournament.stop();
  device.play(tournament);
  EXPECT_EQ(tournament.chosen(), with_chunk(4));
  EXPECT_EQ(device.runs.count(64), 0u);
}

TEST(ConfigSearch, WithoutATrialNothingIsKnown) {
  ConfigSearch tournament(kUsual, in_order({with_chunk(4)}));
  tournament.stop();
  EXPECT_TRUE(tournament.done());
  EXPECT_EQ(tournament.outcome(), Outcome::unresolved);
  EXPECT_EQ(tournament.chosen(), kUsual);
}

TEST(ConfigSearch, ThoseWhoAgreeChooseAlikeWhateverTheyMeasure) {
  int calls = 0;
  const Agreement of_the_first = [&](const std::vector<double>& own) -> std::vector<double> {
    ++calls;
    return own.size() == 2 ? std::vector<double>{0.7, 0.9} : std::vector<double>{0.7};
  };
  FakeDevice device{{{16, 1}, {4, 1.1}, {64, 0.8}}};  // here 64 is faster
  ConfigSearch tournament(kUsual, in_order({with_chunk(4), with_chunk(64)}), {}, of_the_first);
  device.play(tournament);
  EXPECT_EQ(tournament.chosen(), with_chunk(4));
  EXPECT_EQ(tournament.outcome(), Outcome::won);
  EXPECT_EQ(calls, 2);
}

TEST(ConfigSearch, AnAgreementThatGivesTooFewNumbersIsAnError) {
  const Agreement wrong = [](const std::vector<double>&) { return std::vector<double>(); };
  FakeDevice device{{{16, 1}, {4, 1}}};
  ConfigSearch tournament(kUsual, in_order({with_chunk(4)}), {}, wrong);
  EXPECT_THROW(device.play(tournament), Error);
}

TEST(ConfigSearch, WordsForOutcomesAreReadBack) {
  for (const Outcome one : {Outcome::won, Outcome::default_config, Outcome::unresolved})
    EXPECT_EQ(outcome_of(to_string(one)), one);
  EXPECT_EQ(outcome_of("lost"), std::nullopt);
}

}  // namespace
}  // namespace jitstep::jit
