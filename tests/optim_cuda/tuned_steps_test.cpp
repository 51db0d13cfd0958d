// Tuning during an optimizer's own steps on a CUDA device. The interpreter's times mean nothing, so an agreement
// function determines the winner.
#include <jitstep/jitstep.h>

#include "optim/optimizer/cuda.h"
#include "support/own_process.h"
#include "support/ptx_driver/control.h"

namespace jitstep::tests {
namespace {

using nlohmann::json;

const std::vector<std::vector<std::int64_t>> kShapes = {{37, 29}, {300}};
// At most twelve candidates with ten rounds each, and ten more rounds of the best. Then steps with the winner, which
// do not wait, and again with the default kernel, which must wait for the last of them.
constexpr int kSettled = 2 * 10 * 13 + 10, kBack = kSettled + 6, kSteps = kSettled + 10;

// Pretends that all other processes measured the first candidate as the fastest.
std::vector<double> first_is_fastest(const std::vector<double>& own) {
  std::vector<double> all(own.size(), 1.0);
  all.at(0) = 0.5;
  return all;
}

// A step inside a capture, which throws.
void capture(Optimizer& optimizer, const c10::Stream& stream) {
  const c10::StreamGuard guard(stream);
  void* graph = nullptr;
  driver_function<int(void*, int)>("cuStreamBeginCapture_v2")(stream.native_handle(), 1);
  EXPECT_THROW(optimizer.step(), std::exception);
  driver_function<int(void*, void**)>("cuStreamEndCapture")(stream.native_handle(), &graph);
  driver_function<int(void*)>("cuGraphDestroy")(graph);
}

TEST(TunedCudaSteps, DISABLED_GiveTheBitsOfTheCpu) {
  const Tensors here = make_parameters(torch::kFloat32, kShapes), there = to(here, kGpu);
  AdamW by_default(here, AdamWOptions(1e-2)), tuned(there, AdamWOptions(1e-2).tune());
  tuned.set_tuning_agreement(first_is_fastest);
  const c10::Stream streams[] = {side_stream(), side_stream()};
  for (int step = 1; step <= kSteps; ++step) {
    const c10::StreamGuard guard(streams[step / 2 % 2]);
    for (const Tensors& parameters : {here, there}) {
      set_same_gradients(parameters, step);
      if (step % 40 == 0) parameters[1].mutable_grad() = torch::Tensor();  // inactive
    }
    if (step == 2) capture(tuned, side_stream());
    if (step == kBack) tuned.capturable();
    by_default.step();
    const std::size_t waits = ptx::driver::calls("cuCtxSynchronize");
    tuned.step();
    if (step <= kSettled) continue;
    EXPECT_EQ(ptx::driver::calls("cuCtxSynchronize") - waits, step == kBack) << step;
  }
  driver_function<int()>("cuCtxSynchronize")();  // the last steps ran on other streams
  expect_same_bits(there, here);
}

TEST(TunedCudaSteps, GiveTheBitsOfTheCpuOnEveryStreamAndRecordTheirTrials) {
  const OwnProcess process;
  ASSERT_EQ(process.run("TunedCudaSteps.DISABLED_GiveTheBitsOfTheCpu"), 0);
  const std::vector<json> records = process.records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].at("hardware").at("target"), "sm_99");
  EXPECT_EQ(records[0].at("outcome"), "won");
  EXPECT_EQ(records[0].at("configuration"), records[0].at("trials")[0].at("configuration"));
  EXPECT_GE(records[0].at("trials").size(), 6u);
  for (const json& trial : records[0].at("trials")) EXPECT_EQ(trial.at("status"), "timed") << trial;
}

TEST(TunedCudaSteps, DISABLED_ThatAreSkipped) {
  const Tensors there = to(make_parameters(torch::kFloat32, {{300}}), kGpu);
  AdamW tuned(there, AdamWOptions(1e-2).tune());
  tuned.set_tuning_agreement([](const std::vector<double>& own) {
    ADD_FAILURE() << "nothing was timed";
    return own;
  });
  tuned.set_found_inf(torch::ones({1}, torch::dtype(torch::kFloat32).device(kGpu)));
  train_same(tuned, there, 1, kSteps);
}

TEST(TunedCudaSteps, ThatTheDeviceSkipsAreNotTrials) {
  const OwnProcess process;
  EXPECT_EQ(process.run("TunedCudaSteps.DISABLED_ThatAreSkipped"), 0);
  EXPECT_TRUE(process.records().empty());
}

}  // namespace
}  // namespace jitstep::tests
