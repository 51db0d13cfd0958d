// One rank has its parameters on a GPU, the other on the CPU. test_optim_cuda has this test too, for the device whose
// kernels the PTX interpreter executes.
#include <jitstep/sharding.h>

#include "optim/optimizer/cuda.h"
#include "optim_shard/rank_threads.h"

namespace jitstep::tests {
namespace {

class RanksOnDifferentDevices : public testing::TestWithParam<const char*> {};

TEST_P(RanksOnDifferentDevices, EndWithTheBitsOfOneProcess) {
  const auto train = [](const Tensors& parameters, Optimizer& optimizer) {
    for (int step = 1; step <= 3; ++step) {
      auto random = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 + step));
      for (const torch::Tensor& p : parameters)
        p.mutable_grad() = torch::randn(p.sizes(), random).to(p.device());
      optimizer.step();
    }
  };
  const Tensors expected = make_parameters(torch::kFloat32, {{5001}, {90, 57}, {4097}, {}, {0}});
  const Tensors initial = clones(expected);
  train(expected, *Optimizer::from_spec(expected, GetParam()));
  const auto errors = on_ranks(2, [&](int rank, const Group& group) {
    const Tensors parameters = rank == 0 ? to(initial, kGpu) : clones(initial);
    const auto optimizer = Optimizer::from_spec(parameters, GetParam());
    optimizer->shard(group);
    train(parameters, *optimizer);
    SCOPED_TRACE("rank " + std::to_string(rank));
    expect_same_bits(parameters, expected);
  });
  EXPECT_EQ(errors, no_errors(2));
}

INSTANTIATE_TEST_SUITE_P(
    Of, RanksOnDifferentDevices,
    ::testing::Values(
        R"({"rule": "adamw", "state": "int8", "min_quantized_size": 0})",
        R"({"rule": "lamb", "state": "int4", "min_quantized_size": 0, "options": {"max_grad_norm": 0.1}})"));

}  // namespace
}  // namespace jitstep::tests
