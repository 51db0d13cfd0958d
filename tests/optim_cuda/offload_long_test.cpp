// Offloaded optimizers of every rule and state format, and every weight format, give the bits of the CPU. bits_gpu_test
// compares these with the device.
#include "optim/rule_inputs.h"
#include "optim_cuda/offload.h"

namespace jitstep::tests {
namespace {

using Kind = jit::Manifest::Kind;

class OffloadOfEveryRule : public ::testing::TestWithParam<std::string> {};

// False if the rule rejects these parameters.
bool gives_the_bits(const std::string& rule, const GenericOptions& options, torch::Dtype dtype,
                    bool vectors) {
  // A matrix of state of a vector has its length squared elements.
  const bool has_matrices = !jit::default_catalog().rule(rule).matrices.empty();
  Tensors here = make_parameters(dtype, {{66, 70}, {has_matrices ? 41 : 4100}, {}});
  if (!vectors) here.resize(1);
  const Tensors there = to(here, kGpu);
  std::unique_ptr<Optimizer> host, offloaded;
  try {
    host = std::make_unique<Optimizer>(rule, here, options);
    offloaded = std::make_unique<Optimizer>(rule, there, options);
  } catch (const c10::Error&) {
    return false;
  }
  offloaded->offload(OffloadOptions().in_backward(true));
  for (int step = 1; step <= 3; ++step) {
    set_inputs(*host, here, 1), set_inputs(*offloaded, there, 1);
    backward_same(here, step), backward_same(there, step);
    host->step(), offloaded->step();
    host->zero_grad();
  }
  expect_same_bits(there, here);
  return true;
}

TEST_P(OffloadOfEveryRule, GivesTheBitsOfTheCpuInEveryFormat) {
  int runs = 0;
  for (const std::string& state : shipped(Kind::codec)) {
    SCOPED_TRACE(state);
    const GenericOptions options = GenericOptions().state(state);
    if (gives_the_bits(GetParam(), options, torch::kFloat32, true) ||
        gives_the_bits(GetParam(), options, torch::kFloat32, false))
      ++runs;
  }
  for (const std::string& weights : shipped(Kind::weights)) {
    SCOPED_TRACE(weights);
    const GenericOptions options = GenericOptions().weights(weights);
    if (gives_the_bits(GetParam(), options, torch::kBFloat16, true) ||
        gives_the_bits(GetParam(), options, torch::kBFloat16, false))
      ++runs;
  }
  EXPECT_GT(runs, 0);
}

INSTANTIATE_TEST_SUITE_P(Shipped, OffloadOfEveryRule, ::testing::ValuesIn(shipped(Kind::rule)),
                         [](const auto& rule) { return rule.param; });

}  // namespace
}  // namespace jitstep::tests
