#include "jit/tuning/tuned_configs.h"

#include "jit/fixtures.h"
#include "jit/tuning/tuning_samples.h"

namespace jitstep::jit {
namespace {

using testing::abacus;
using testing::adamw_plan;
using testing::won_record;

constexpr WorkSize kMega = {1 << 20, 1};

ConfigChoice choose(std::vector<TuningRecord> records, const WorkSize& size = kMega,
                    const Plan& plan = adamw_plan()) {
  const auto digest = [](const Plan&) { return std::string("0123456789abcdef"); };
  return TunedConfigs(std::move(records), abacus(), digest).choose(plan, size);
}

TuningRecord with_chunk(TuningRecord record, int chunk) {
  record.config.leaves_per_item = chunk;
  return record;
}

TEST(TunedConfigs, ARecordOfTheSameSizeAndHardwareIsExact) {
  const ConfigChoice choice = choose({won_record()});
  EXPECT_EQ(choice.match, Match::exact);
  EXPECT_EQ(choice.config, won_record().config);
  EXPECT_EQ(choice.distance, 0);
  EXPECT_EQ(choice.why,
            "vector_elems 256, leaves_per_item 64, unroll 1 was 1.25 times as fast as the default "
            "for 1048576 "
            "elements on Abacus 3000 (4 threads) on 2026-11-23");
}

TEST(TunedConfigs, WithoutARecordTheDefaultIsUsed) {
  const ConfigChoice choice = choose({});
  EXPECT_EQ(choice.match, Match::none);
  EXPECT_EQ(choice.config, default_kernel_config(adamw_plan(), Target::cpu()));
  EXPECT_EQ(choice.why, "this kernel has no tuning record");
  EXPECT_EQ(choose({won_record()}, kMega, adamw_plan("int8")).match, Match::none);
}

TEST(TunedConfigs, TheNearestSizeIsUsedUnlessItIsFar) {
  const TuningRecord small = with_chunk(won_record({1 << 18, 1}), 4);
  const TuningRecord large = with_chunk(won_record({1 << 21, 1}), 256);
  const ConfigChoice near = choose({small, large});
  EXPECT_EQ(near.match, Match::nearest_size);
  EXPECT_EQ(near.distance, 1);
  EXPECT_EQ(near.config.leaves_per_item, 256);
  EXPECT_EQ(choose({small, large}, {1 << 19, 1}).config.leaves_per_item, 4);
  EXPECT_EQ(choose({small, large}, {1 << 26, 1}).match, Match::none);
  EXPECT_EQ(choose({small}, {1 << 23, 1}).match, Match::none);
  EXPECT_EQ(choose({small}, {1 << 22, 1}).match, Match::nearest_size);
}

TEST(TunedConfigs, ManySmallTensorsDifferFromOneLarge) {
  const TuningRecord many = with_chunk(won_record({1 << 20, 512}), 4);
  EXPECT_EQ(choose({many}).match, Match::none);
  EXPECT_EQ(choose({many, won_record()}).config.leaves_per_item, 64);
  EXPECT_EQ(choose({many, won_record()}, {1100000, 500}).config.leaves_per_item, 4);
  EXPECT_NE(choose({many}, {1100000, 500}).why.find("1048576 elements in 512 tensors"),
            std::string::npos);
}

TEST(TunedConfigs, AnotherSizeIsPreferredToOtherHardwareOfTheArchitecture) {
  const TuningRecord elsewhere = with_chunk(won_record(kMega, abacus(96)), 256);
  const TuningRecord near = with_chunk(won_record({1 << 22, 1}), 4);
  const ConfigChoice choice = choose({elsewhere});
  EXPECT_EQ(choice.match, Match::same_architecture);
  EXPECT_EQ(choice.config.leaves_per_item, 256);
  EXPECT_NE(choice.why.find("(96 threads) on 2026-11-23, another machine"), std::string::npos);
  EXPECT_EQ(choose({elsewhere, near}).match, Match::nearest_size);
}

// `jitstep tune --threads 1` writes such records.
TEST(TunedConfigs, AnotherThreadCountIsPreferredToOtherHardware) {
  Hardware one = abacus(1);
  one.processors = 4;
  EXPECT_TRUE(same_machine(one, abacus()));
  EXPECT_FALSE(same_hardware(one, abacus()));
  EXPECT_FALSE(same_machine(abacus(1), abacus()));
  const TuningRecord single = with_chunk(won_record(kMega, one), 4);
  const TuningRecord elsewhere = with_chunk(won_record(kMega, abacus(96)), 256);
  const ConfigChoice choice = choose({elsewhere, single});
  EXPECT_EQ(choice.config.leaves_per_item, 4);
  EXPECT_EQ(choice.match, Match::same_architecture);
  EXPECT_NE(choice.why.find("(1 thread) on 2026-11-23, this machine with 4 threads in use"),
            std::string::npos)
      << choice.why;
  EXPECT_EQ(choose({single, won_record()}).match, Match::exact);
  EXPECT_EQ(read_record(to_json(single)).record, single);
}

TEST(TunedConfigs, RecordsOfAnotherArchitectureOrTargetAreIgnored) {
  TuningRecord other = won_record();
  other.hardware.architecture = "x86-64 Beads family 6 avx2";
  EXPECT_EQ(choose({other}).match, Match::none);
  other = won_record();
  other.hardware.target = Target::cuda(90);
  EXPECT_EQ(choose({other}).match, Match::none);
}

TEST(TunedConfigs, TheFirstOfEqualRecordsIsUsedAndCurrentTemplatesArePreferred) {
  EXPECT_EQ(
      choose({with_chunk(won_record(), 4), with_chunk(won_record(), 256)}).config.leaves_per_item,
      4);
  TuningRecord old = with_chunk(won_record(), 4);
  old.versions.templates = "f";
  EXPECT_EQ(choose({old, won_record()}).config.leaves_per_item, 64);
  TuningRecord current = won_record();  // of the same class of sizes, but not of exactly this size
  current.size.elements += current.size.elements / 8;
  EXPECT_EQ(choose({old, current}).config.leaves_per_item, 64);
  EXPECT_EQ(choose({with_chunk(current, 4), won_record()}).config.leaves_per_item, 64);
  const ConfigChoice stale = choose({old});
  EXPECT_EQ(stale.match, Match::exact);
  EXPECT_NE(stale.why.find("with other templates than the current ones"), std::string::npos);
}

TEST(TunedConfigs, UnfinishedRecordsWithoutAWinnerAndInvalidOnesAreIgnored) {
  TuningRecord half = won_record();
  half.complete = false;
  EXPECT_EQ(choose({half}).match, Match::exact);
  half.outcome = Outcome::unresolved;
  EXPECT_EQ(choose({half}).match, Match::none);
  EXPECT_EQ(choose({with_chunk(won_record(), 3)}).match, Match::none);
}

TEST(TunedConfigs, AnUnresolvedRecordIsReportedAndTheDefaultIsUsed) {
  TuningRecord open = won_record();
  open.outcome = Outcome::unresolved;
  open.config = default_kernel_config(adamw_plan(), Target::cpu());
  EXPECT_NE(choose({open}).why.find("no configuration was significantly faster"),
            std::string::npos);
  open.outcome = Outcome::default_config;
  EXPECT_NE(choose({open}).why.find("no configuration was faster than"), std::string::npos);
}

TEST(TunedConfigs, AKernelIsTunedIfARecordIsExactAndOfCurrentTemplates) {
  const auto digest = [](const Plan&) { return std::string("0123456789abcdef"); };
  const TunedConfigs tuned({won_record()}, abacus(), digest);
  ASSERT_NE(tuned.exact(adamw_plan(), kMega), nullptr);
  EXPECT_EQ(*tuned.exact(adamw_plan(), kMega), won_record());
  EXPECT_EQ(tuned.exact(adamw_plan(), {1 << 22, 1}), nullptr);
  const auto today = [](const Plan&) { return std::string("other"); };
  EXPECT_EQ(TunedConfigs({won_record()}, abacus(), today).exact(adamw_plan(), kMega), nullptr);
}

TEST(TunedConfigs, TheSourceIsDigestedOnlyForAKernelWithARecord) {
  int calls = 0;
  const auto digest = [&](const Plan&) { return ++calls, std::string("d"); };
  const TunedConfigs tuned({won_record()}, abacus(), digest);
  tuned.choose(adamw_plan("int8"), kMega);
  EXPECT_EQ(calls, 0);
  tuned.choose(adamw_plan(), kMega);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace jitstep::jit
