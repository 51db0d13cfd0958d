// Which tables a step sends to a fake GPU, and when.
#include "jit/base/args.h"
#include "jit/step/cuda_steps.h"

namespace jitstep::jit {
namespace {

using namespace testing;
using Sizes = std::vector<std::size_t>;

class CudaTables : public CudaSteps {
 protected:
  // The sizes of the copies since the last call.
  Sizes sent() {
    Sizes sizes;
    for (const auto& [bytes, stream] : fake.copies) sizes.push_back(bytes);
    fake.clear();
    return sizes;
  }
  void step_with(const std::vector<StepInput>& now, const std::vector<HyperParams>& sets) {
    adamw->run(now, sets);
  }

  std::unique_ptr<Step> adamw = step_of(plan("adamw"));
  std::vector<StepInput> given = inputs(3);
  HyperParams set = at_step(1);
};

TEST_F(CudaTables, ItemsAndTensorsAreSentWhenTheStepIsMade) {
  EXPECT_EQ(sent(), (Sizes{3 * sizeof(Item), 3 * sizeof(TensorRecord)}));
}

TEST_F(CudaTables, GradientsAndNumbersAreSentWithTheFirstStep) {
  sent();
  step_with(given, {set});
  EXPECT_EQ(sent(), (Sizes{3 * sizeof(StepRecord), sizeof(HyperParams)}));
}

TEST_F(CudaTables, NothingIsSentForAStepLikeTheLast) {
  step_with(given, {set});
  sent();
  step_with(given, {set});
  EXPECT_EQ(sent(), Sizes{});
}

TEST_F(CudaTables, OnlyTheNumbersAreSentWhenTheyOrTheStepChange) {
  step_with(given, {set});
  sent();
  set.t = 2;
  step_with(given, {set});
  EXPECT_EQ(sent(), Sizes{sizeof(HyperParams)});
  set.hyper[0] = 0.5;
  step_with(given, {set});
  EXPECT_EQ(sent(), Sizes{sizeof(HyperParams)});
}

TEST_F(CudaTables, AGradientThatMovedIsSent) {
  step_with(given, {set});
  sent();
  given[1].g = &set;
  step_with(given, {set});
  EXPECT_EQ(sent(), Sizes{3 * sizeof(StepRecord)});
  given[1].aligned = true;
  step_with(given, {set});
  EXPECT_EQ(sent(), Sizes{3 * sizeof(StepRecord)});
}

TEST_F(CudaTables, AParameterWithItsOwnStepNumberNeedsItsOwnHyperParams) {
  step_with(given, {set});
  sent();
  HyperParams late = set;
  late.t = 7;
  given[2].hyper_index = 1;
  step_with(given, {set, late});
  EXPECT_EQ(sent(), (Sizes{3 * sizeof(StepRecord), 2 * sizeof(HyperParams)}));
}

TEST_F(CudaTables, ATableThatWasNotSentIsSentBeforeTheNextStep) {
  for (int copy : {0, 1}) {
    given[0].g = given[0].g == &set ? somewhere() : &set;
    ++set.t;
    fake.fail("cuMemcpyHtoDAsync", 2, copy, 1);
    EXPECT_THROW(step_with(given, {set}), CudaError);
    fake.recover();
    fake.drain();
    fake.runs.clear();
    step_with(given, {set});
    fake.drain();
    ASSERT_EQ(fake.runs.size(), 1u);
    EXPECT_EQ(fake.runs[0].t, set.t) << copy;
    EXPECT_EQ(fake.runs[0].gradients[0], given[0].g) << copy;
  }
}

TEST_F(CudaTables, AStepThatRunsOutOfMemoryCanBeRetried) {
  const auto lamb = step_of(plan("lamb", true));
  for (int allocation = 0; allocation < 5; ++allocation) {
    fake.allocations_to_failure = allocation;
    auto fresh = std::unique_ptr<Step>();
    try {
      fresh = step_of(plan("lamb", true));
      step(*fresh, 1);
    } catch (const std::bad_alloc&) {
    }
    fake.allocations_to_failure = -1;
    fake.drain();
    EXPECT_TRUE(fake.runs.empty());
  }
  for (int allocation = 0; allocation < 3; ++allocation) {  // allocations of the first step
    const auto fresh = step_of(plan("lamb", true));
    fake.allocations_to_failure = allocation;
    EXPECT_THROW(step(*fresh, 1), std::bad_alloc);
    fake.allocations_to_failure = -1;
    step(*fresh, 1);
    fake.drain();
    for (const auto& run : fake.runs) {
      EXPECT_FALSE(run.garbage);
      for (const auto& reduction : run.args.reductions)
        EXPECT_EQ(reduction.all == nullptr, reduction.work == nullptr);
    }
    fake.clear();
  }
}

TEST_F(CudaTables, LargeTablesAreCopiedInChunks) {
  sent();
  const auto large = step_of(plan("adamw"), 300);
  std::size_t sum = 0;
  for (std::size_t bytes : sent()) {
    EXPECT_LE(bytes, 65536u);
    sum += bytes;
  }
  EXPECT_EQ(sum, 300 * (sizeof(Item) + sizeof(TensorRecord)));
  step(*large, 1);
  fake.drain();
  ASSERT_EQ(fake.runs.back().ids.size(), 300u);
  EXPECT_EQ(fake.runs.back().ids.back(), 299);
}

TEST_F(CudaTables, TheHostsCopyMayChangeAfterTheCall) {
  for (set.t = 1; set.t <= 3; ++set.t) step_with(given, {set});
  fake.drain();
  ASSERT_EQ(fake.runs.size(), 3u);
  for (int i : {0, 1, 2}) EXPECT_EQ(fake.runs[i].t, i + 1);
}

TEST_F(CudaTables, DestroyedStepsLeakNothing) {
  adamw.reset();
  for (int round = 0; round < 50; ++round) {
    const int count = 2 + round % 2;
    Step both(backends[0],
              {{plan("adamw"), tensors(count, 10)}, {plan("lamb", true), tensors(3, 10, count)}});
    hosts[0]->current = round % 3 == 0 ? 0 : fake.new_stream();
    step(both, round + 1);
    EXPECT_GT(fake.live_allocations(), 0);
  }
  EXPECT_EQ(fake.live_allocations(), 0);
  EXPECT_EQ(fake.live_events(), 0);
  fake.drain();
  for (const auto& run : fake.runs) EXPECT_FALSE(run.garbage);
}

}  // namespace
}  // namespace jitstep::jit
