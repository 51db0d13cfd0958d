// Checkpoints that an earlier version of jitstep wrote load and continue as that version did.
#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include "golden/checkpoints/cases.h"

namespace jitstep::tests {
namespace {

using Tensors = std::vector<torch::Tensor>;

class Checkpoint : public testing::TestWithParam<CheckpointCase> {
 protected:
  static std::string file(const std::string& ending) {
    return std::string(JITSTEP_TEST_DATA "/golden/checkpoints/") + GetParam().name + ending;
  }
  // The parameters after step 3, and after step 5.
  static std::pair<Tensors, Tensors> recorded() {
    Tensors all;
    torch::load(all, file(".parameters.pt"));
    for (auto& p : all) p.set_requires_grad(true);
    return {{all[0], all[1]}, {all[2], all[3]}};
  }
};

TEST_P(Checkpoint, OfAnEarlierVersionContinuesToTheSameBits) {
  auto [parameters, expected] = recorded();
  const auto optimizer = checkpoint_optimizer(GetParam(), parameters, false);
  optimizer->load(file(".pt"));
  if (GetParam().eval) optimizer->train();
  step_checkpoint(*optimizer, parameters, 4, 5);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [p, q] = std::pair(parameters[i], expected[i]);
    EXPECT_TRUE(GetParam().rtol == 0 ? torch::equal(p, q) : torch::allclose(p, q, GetParam().rtol))
        << "parameter " << i << " differs by " << (p - q).abs().max().item<double>();
  }
}

TEST_P(Checkpoint, IsWhatTheSameStepsGiveNow) {
  const auto [parameters, unused] = recorded();
  const auto now = checkpoint_parameters(GetParam());
  const auto optimizer = checkpoint_optimizer(GetParam(), now, true);
  step_checkpoint(*optimizer, now, 1, 3);
  if (GetParam().eval) optimizer->eval();
  for (std::size_t i = 0; i < now.size(); ++i)
    EXPECT_TRUE(GetParam().rtol == 0 ? torch::equal(now[i], parameters[i])
                                     : torch::allclose(now[i], parameters[i], GetParam().rtol))
        << i;
}

INSTANTIATE_TEST_SUITE_P(Cases, Checkpoint, testing::ValuesIn(kCheckpointCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace jitstep::tests
