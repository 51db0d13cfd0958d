// The front end on a CUDA device: torch's tensors and streams, and kernels from NVRTC that the PTX interpreter
// executes. Results must equal those on the CPU.
#include "optim/optimizer/cuda.h"
#include "support/ptx_driver/control.h"

namespace jitstep::tests {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {{37, 29}, {300}, {1}, {0}, {}};

// An optimizer on the CPU and the same one on the device.
struct Pair {
  explicit Pair(const std::string& spec, torch::Dtype dtype = torch::kFloat32)
      : here(make_parameters(dtype, kShapes)),
        there(to(here, kGpu)),
        host(Optimizer::from_spec(here, spec)),
        device(Optimizer::from_spec(there, spec)) {}

  void train(int first, int last) {
    for (int step = first; step <= last; ++step) {
      train_same(*host, here, step, step);
      train_same(*device, there, step, step);
    }
  }
  void expect_equal() const { expect_same_bits(there, here); }

  Tensors here, there;
  std::unique_ptr<Optimizer> host, device;
};

class CudaFrontEnd : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaFrontEnd, StepsGiveTheBitsOfTheCpu) {
  Pair pair(GetParam());
  pair.train(1, 3);
  pair.expect_equal();
  EXPECT_EQ(state_of(*pair.device, pair.there[0]).step(), 3);
  EXPECT_TRUE(state_of(*pair.device, pair.there[0]).codes("m").is_cuda());
}

INSTANTIATE_TEST_SUITE_P(
    Of, CudaFrontEnd,
    ::testing::Values(R"({"rule": "adamw"})",
                      R"({"rule": "adamw", "state": "int8", "min_quantized_size": 0})",
                      R"({"rule": "lamb", "state": "int4", "min_quantized_size": 0})",
                      R"({"rule": "adam", "options": {"max_grad_norm": 0.1}})",
                      R"({"rule": "lion", "state": "fp8", "min_quantized_size": 0})"));

TEST(CudaFrontEndOf16Bits, RoundsByTheSameRandomBits) {
  Pair pair(R"({"rule": "adamw", "weights": "stochastic", "state": "bf16"})", torch::kBFloat16);
  pair.train(1, 3);
  pair.expect_equal();
}

// Adding slots later must not reset the residuals.
TEST(CudaFrontEndOf16Bits, KeepsWeightsIfSlotsAreAddedLater) {
  for (const char* format : {"master", "split16", "split8", "kahan"}) {
    SCOPED_TRACE(format);
    Pair pair(
        std::string(R"({"rule": "sgd", "options": {"lr": 0.004}, "weights": ")") + format + "\"}",
        torch::kBFloat16);
    pair.train(1, 3);
    for (Optimizer* const one : {pair.host.get(), pair.device.get()})
      static_cast<Options&>(one->param_groups()[0].options()).put("momentum", 0.9);
    pair.train(4, 4);
    pair.expect_equal();
    expect_same_bits(pair.device->fp32_weights(), pair.host->fp32_weights());
    pair.train(5, 6);
    expect_same_bits(pair.device->fp32_weights(), pair.host->fp32_weights());
  }
}

TEST(CudaFrontEndStreams, AStepRunsOnTheCurrentStreamAndWaitsForTheLastStep) {
  Pair pair(R"({"rule": "lamb"})");
  pair.train(1, 1);
  {
    const c10::StreamGuard other(side_stream());
    pair.train(2, 2);
  }
  pair.train(3, 3);
  pair.expect_equal();
}

// The second parameter's first gradient makes the optimizer build new tables. Freed memory makes this device wait
// anyway, so the test counts calls.
TEST(CudaFrontEndStreams, AStepWithNewTablesWaitsForTheLastStepToo) {
  Pair pair(R"({"rule": "lamb"})");
  train_same(*pair.host, {pair.here[0]}, 1, 1);
  train_same(*pair.device, {pair.there[0]}, 1, 1);
  const c10::StreamGuard other(side_stream());
  const std::size_t waits = ptx::driver::calls("cuStreamWaitEvent");
  pair.train(2, 2);
  EXPECT_GT(ptx::driver::calls("cuStreamWaitEvent"), waits);
  pair.expect_equal();
}

TEST(CudaFrontEndCheckpoints, LoadOnAnotherDevice) {
  const char* const spec = R"({"rule": "adamw", "state": "int8", "min_quantized_size": 0})";
  Pair pair(spec);
  pair.train(1, 2);
  const Tensors parameters = to(pair.there, torch::kCPU);
  const auto resumed = Optimizer::from_spec(parameters, spec);
  copy_through_archive(*pair.device, *resumed);
  train_same(*resumed, parameters, 3, 4);
  train_same(*pair.device, pair.there, 3, 4);
  expect_same_bits(pair.there, parameters);
}

TEST(CudaFrontEndMemory, ReportsDeviceMemory) {
  Pair pair(R"({"rule": "adamw", "state": "int8", "min_quantized_size": 0})");
  pair.train(1, 1);
  EXPECT_EQ(pair.device->memory_report().state_bytes(), pair.host->memory_report().state_bytes());
}

TEST(CudaFrontEndSkips, TheDeviceSkipsStepsThatAreNotFinite) {
  Pair pair(R"({"rule": "prodigy"})");
  const auto found = torch::ones({1}, torch::kCUDA);
  pair.device->set_found_inf(found);
  train_same(*pair.device, pair.there, 50, 50);
  pair.expect_equal();
  found.zero_();
  pair.train(1, 2);
  pair.expect_equal();
  EXPECT_EQ(state_of(*pair.device, pair.there[0]).step(), 2);
  EXPECT_EQ(pair.device->aux_state("d"), pair.host->aux_state("d"));
}

// The interpreter accepts addresses of host memory, so this test sees wrong values only, and no wrong addresses.
TEST(CudaFrontEndDevices, CountsOfSharedStateFollowTheParameters) {
  const char* const spec = R"({"rule": "prodigy"})";
  const Tensors here = make_parameters(torch::kFloat32, kShapes), moving = clones(here);
  const auto host = Optimizer::from_spec(here, spec), moved = Optimizer::from_spec(moving, spec);
  moved->capturable();
  for (int step = 1; step <= 4; ++step) {
    if (step == 3)
      for (const torch::Tensor& p : moving) p.set_data(p.detach().to(kGpu));
    train_same(*host, here, step, step);
    train_same(*moved, moving, step, step);
  }
  expect_same_bits(moving, here);
  EXPECT_EQ(moved->aux_state("d"), host->aux_state("d"));
}

TEST(CudaFrontEndDevices, StepsParametersOfBothTogether) {
  const Tensors here = make_parameters(torch::kFloat32, {{40}, {50}});
  const Tensors alone = clones(here);
  const Tensors mixed = {clones(here)[0], to(here, kGpu)[1]};
  AdamW both(mixed), host(alone);
  train_same(both, mixed, 1, 2);
  train_same(host, alone, 1, 2);
  expect_same_bits(mixed, alone);
}

}  // namespace
}  // namespace jitstep::tests
