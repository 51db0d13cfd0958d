// Ranks that share the state of an optimizer and tune its kernels in their steps.
#include <torch/types.h>

#include <array>

#include "optim_shard/ranks.h"
#include "support/own_process.h"

namespace jitstep::tests {
namespace {

constexpr int kRanks = 2;
// Two kernels, each with at most 12 candidates and a confirmation of 20 steps.
constexpr int kSteps = 2 * 13 * 20 + 4;

// The weight and bias of a linear layer. State of the bias has 32 bits, and one rank has all of it.
Tensors layer() {
  auto random = at::detail::createCPUGenerator(5);
  return {(torch::randn({512, 512}, random) * 0.1).set_requires_grad(true),
          torch::zeros({512}).set_requires_grad(true)};
}

AdamWOptions options() { return AdamWOptions(0.01).state("int8"); }

void train(Optimizer& optimizer, const Tensors& parameters) {
  for (int step = 1; step <= kSteps; ++step) set_gradients(parameters, step), optimizer.step();
}

// Trains on each rank, and compares the parameters. Without `agree` with the agreement of shard().
std::vector<std::string> tune_on_ranks(
    const Tensors& expected,
    const std::function<Optimizer::TuningAgreement(std::size_t rank)>& agree = {}) {
  return on_ranks(
      kRanks,
      [&](int rank, const Group& group) {
        const Tensors parameters = layer();
        AdamW optimizer(parameters, options().tune());
        if (agree) optimizer.set_tuning_agreement(agree(static_cast<std::size_t>(rank)));
        optimizer.shard(group);
        train(optimizer, parameters);
        expect_equal(parameters, expected, "parameter");
      },
      std::chrono::seconds(60));
}

TEST(TunedRanks, DISABLED_AgreeAfterTheSameSteps) {
  const Tensors expected = layer();
  AdamW alone(expected, options());
  train(alone, expected);
  // An agreement that exchanges nothing, so that no rank waits for another one.
  std::array<std::vector<std::size_t>, kRanks> asked;
  const auto log = [&](std::size_t rank) {
    return [&own = asked[rank]](const std::vector<double>& times) {
      own.push_back(times.size());
      return std::vector<double>(times.size(), 0.5);
    };
  };
  EXPECT_EQ(tune_on_ranks(expected, log), no_errors(kRanks));
  EXPECT_EQ(asked[0].size(), 4u) << "after the candidates and the confirmation of two kernels";
  EXPECT_EQ(asked[0], asked[1]);
  EXPECT_EQ(tune_on_ranks(expected), no_errors(kRanks));
}

TEST(TunedRanks, AgreeAfterTheSameStepsWithTheBitsOfOneProcess) {
  const OwnProcess process;
  ASSERT_EQ(process.run("TunedRanks.DISABLED_AgreeAfterTheSameSteps"), 0);
  EXPECT_FALSE(process.records().empty());
}

}  // namespace
}  // namespace jitstep::tests
