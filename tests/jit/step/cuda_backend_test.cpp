// Launches on fake GPUs.
#include "jit/step/cuda_steps.h"

namespace jitstep::jit {
namespace {

using namespace testing;

using CudaLaunch = CudaSteps;

TEST_F(CudaLaunch, OneLaunchStepsAllTensorsAndAPassWithASumNeedsTwoMore) {
  step(*step_of(plan("adamw"), 700), 1);
  EXPECT_EQ(fake.calls_of("cuLaunchKernel"),
            (Calls{str_cat("cuLaunchKernel jitstep_apply 128x256 stream 0")}));
  fake.clear();
  step(*step_of(plan("lamb", true)), 1);
  EXPECT_EQ(fake.calls_of("cuLaunchKernel"),
            (Calls{"cuLaunchKernel jitstep_partials_0 3x256 stream 0",
                   "cuLaunchKernel jitstep_finalize_0 1x256 stream 0",
                   "cuLaunchKernel jitstep_partials_1 3x256 stream 0",
                   "cuLaunchKernel jitstep_finalize_1 3x256 stream 0",
                   "cuLaunchKernel jitstep_apply 3x256 stream 0"}));
}

TEST_F(CudaLaunch, TheGridHasABlockPerItemUpToAMultipleOfTheGpu) {
  const auto grid_of = [&](int count) {
    fake.runs.clear();
    step(*step_of(plan("adamw"), count), 1);
    fake.drain();
    return fake.runs.empty() ? 0u : fake.runs.back().grid;
  };
  EXPECT_EQ(grid_of(1), 1u);
  EXPECT_EQ(grid_of(127), 127u);
  EXPECT_EQ(grid_of(128), 128u);  // 4 multiprocessors
  EXPECT_EQ(grid_of(5000), 128u);
}

TEST_F(CudaLaunch, NoItemsNoLaunch) {
  step(*step_of(plan("adamw"), 4, 0), 1);
  EXPECT_TRUE(fake.calls_of("cuLaunchKernel").empty());
}

TEST_F(CudaLaunch, ABlockHasTheConfigsThreads) {
  for (int threads : {32, 128, 512}) {
    Step of(backends[0], {{plan("adamw"), tensors(2, 10), KernelConfig{threads, 32, 4, 8}}});
    step(of, 1);
    fake.drain();
    EXPECT_EQ(fake.runs.back().block, static_cast<unsigned>(threads));
  }
}

TEST_F(CudaLaunch, EveryLaunchHasItsOwnArguments) {
  const auto lamb = step_of(plan("lamb", true));
  step(*lamb, 1);
  step(*lamb, 2);
  fake.drain();
  ASSERT_EQ(fake.runs.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_FALSE(fake.runs[i].garbage);
    EXPECT_EQ(fake.runs[i].t, i < 5 ? 1 : 2);
  }
  EXPECT_EQ(fake.runs[1].args.item_count, 1);  // the sum over all tensors
  EXPECT_EQ(fake.runs[0].ids, (std::vector<int>{0, 1, 2}));
  EXPECT_NE(fake.runs[0].args.items, fake.runs[4].args.items);
}

TEST_F(CudaLaunch, EachDeviceHasItsModuleItsContextAndItsStream) {
  const auto on_0 = step_of(plan("adamw"), 2, 10, 0), on_1 = step_of(plan("adamw"), 2, 10, 1);
  EXPECT_EQ(fake.loaded_modules(), 2);
  EXPECT_EQ(engine.statistics().compiled, 1u);
  fake.set_current_context(0);
  fake.clear();
  step(*on_1, 1);
  EXPECT_EQ(fake.calls_of("cuLaunchKernel"), Calls{"cuLaunchKernel jitstep_apply 2x256 stream 1"});
  EXPECT_FALSE(fake.calls_of("cuCtxPushCurrent 1").empty());
  EXPECT_EQ(fake.context_depth(), 1u);
  fake.clear();
  step(*on_0, 1);
  EXPECT_TRUE(fake.calls_of("cuCtxPushCurrent").empty()) << "its context was already current";
}

TEST_F(CudaLaunch, AFailedLaunchRestoresTheContextAndCanBeRetried) {
  const auto on_1 = step_of(plan("lamb", true), 2, 10, 1);
  for (int spared = 0; spared < 5; ++spared) {
    fake.fail("cuLaunchKernel", 701, spared, 1);
    EXPECT_THROW(step(*on_1, 1), CudaError);
    EXPECT_EQ(fake.context_depth(), 0u);
    fake.recover();
    fake.drain();
    fake.clear();
    step(*on_1, 1);
    fake.drain();
    EXPECT_EQ(fake.runs.size(), 5u);
  }
}

TEST_F(CudaLaunch, NoDeviceIsSteppedBeforeAllAreReady) {
  const auto on_0 = step_of(plan("adamw"), 2, 10, 0), on_1 = step_of(plan("adamw"), 2, 10, 1);
  const auto step_both = [&] {
    for (auto* of : {on_0.get(), on_1.get()}) of->prepare(inputs(2), {at_step(1)});
    for (auto* of : {on_0.get(), on_1.get()}) of->launch();
  };
  fake.fail("cuMemcpyHtoDAsync", 2, 3, 1);  // the second table of the second device
  EXPECT_THROW(step_both(), CudaError);
  EXPECT_TRUE(fake.calls_of("cuLaunchKernel").empty());
  fake.allocations_to_failure = 0;  // for that table, which has none yet
  fake.recover();
  step_both();
  EXPECT_EQ(fake.calls_of("cuLaunchKernel").size(), 2u);
}

}  // namespace
}  // namespace jitstep::jit
