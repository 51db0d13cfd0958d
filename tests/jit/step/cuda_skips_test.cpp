// Steps that a fake GPU may skip.
#include "jit/step/cuda_steps.h"

namespace jitstep::jit {
namespace {

using namespace testing;

class CudaSkips : public CudaSteps {
 protected:
  std::vector<StepInput> given = inputs(3);
  std::vector<HyperParams> sets = std::vector<HyperParams>(3, at_step(4));
  float found = 0;
  int64 step_offsets[3] = {};

  CudaSkips() {
    for (int i : {0, 1, 2}) given[i].hyper_index = i;
  }
  void allow_skips() {
    for (int i : {0, 1, 2}) {
      sets[i].found_inf = &found;
      sets[i].step_offset = &step_offsets[i];
    }
  }
  // The driver calls in a step of a rule with sums.
  Calls calls_of_a_step() {
    const auto lamb = step_of(plan("lamb", true));
    fake.clear();
    lamb->run(given, sets);
    return fake.calls;
  }
};

TEST_F(CudaSkips, NeedNoMoreDriverCalls) {
  const Calls calls = calls_of_a_step();
  ASSERT_FALSE(calls.empty());
  allow_skips();
  EXPECT_EQ(calls_of_a_step(), calls);
}

TEST_F(CudaSkips, PassFlagAndCounterToEveryKernel) {
  allow_skips();
  const auto adamw = step_of(plan("adamw"));
  given[1].cleared = somewhere(9);
  adamw->run(given, sets);
  fake.drain();
  ASSERT_EQ(fake.runs.size(), 1u);
  const Args& args = fake.runs[0].args;
  ASSERT_EQ(args.tensor_count, 3);
  for (int i : {0, 1, 2}) {
    EXPECT_EQ(args.hyper_params[args.steps[i].hyper_index].found_inf, &found);
    EXPECT_EQ(args.hyper_params[args.steps[i].hyper_index].step_offset, &step_offsets[i]);
    EXPECT_EQ(args.steps[i].cleared, given[i].cleared);
  }
}

}  // namespace
}  // namespace jitstep::jit
