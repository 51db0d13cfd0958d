// Tensors that are shared among ranks end with the bits of whole tensors, for every kind of sum, state and format.
#include <gtest/gtest.h>

#include "emulation/emulated_backend.h"
#include "jitstep/jit/engine.h"
#include "support/rank_steps.h"

namespace jitstep::support {
namespace {

class Parts : public testing::TestWithParam<RankCase> {
 protected:
  std::vector<Device> cpus(std::size_t ranks) { return std::vector<Device>(ranks, Device(cpu_)); }

  jit::CpuBackend cpu_{jit::default_engine()};
};
using PartsOfTensors = Parts;

TEST_P(Parts, GiveTheBitsOfWholeTensors) {
  const RankOutcome whole = step_ranks(GetParam(), cpus(1));
  for (const std::size_t ranks : {2, 3, 4, 8})
    EXPECT_EQ(differing(whole, step_ranks(GetParam(), cpus(ranks))), std::vector<std::string>())
        << ranks << " ranks";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parts, testing::ValuesIn(rank_cases()), kRankCaseName);

TEST_F(PartsOfTensors, StepOnAGpuAndOnTheCpuTogether) {
  EmulatedBackend gpu(jit::default_engine(), 2, BlockOrder::kReverse, LaneOrder::kReverse);
  for (const RankCase& c : {RankCase{.name = "lamb", .rule = "lamb", .state = "int8"},
                            RankCase{.name = "prodigy", .rule = "prodigy"}}) {
    const RankOutcome whole = step_ranks(c, cpus(1));
    const std::vector<Device> mixed = {Device(cpu_), Device(gpu)};
    EXPECT_EQ(differing(whole, step_ranks(c, mixed)), std::vector<std::string>()) << c.name;
  }
}

TEST_F(PartsOfTensors, MayHaveOtherConfigurations) {
  const RankCase c{.name = "lamb", .rule = "lamb", .leaves_per_item = {4, 64}};
  EXPECT_EQ(differing(step_ranks(c, cpus(1)), step_ranks(c, cpus(2))), std::vector<std::string>());
}

TEST_F(PartsOfTensors, NeedTheSumsOfTheOtherParts) {
  const RankCase c{.name = "lamb", .rule = "lamb"};
  const RankOutcome whole = step_ranks(c, cpus(1));
  EXPECT_NE(differing(whole, step_ranks(c, cpus(2), /*exchanges=*/false)),
            std::vector<std::string>());
}

}  // namespace
}  // namespace jitstep::support
