// Cases of several steps, run one after the other.
#include "emulation/step_run.h"

#include <gtest/gtest.h>

#include <set>

#include "jitstep/jit/engine.h"

namespace jitstep::emulation {
namespace {

StepCase adamw(const std::vector<TensorCase>& tensors) {
  StepCase c{.spec = {.rule = "adamw"}, .options = {}, .tensors = tensors};
  c.spec.state.slots.assign(3, jit::CodecChoice{"fp32"});
  return c;
}

class StepRuns : public ::testing::Test {
 protected:
  StepRun run_of(const StepCase& c) {
    return {c, cpu_, jit::default_kernel_config(kernel_of(c), jit::Target::cpu())};
  }
  StepOutcome all_of(const StepCase& c) {
    return run_case(c, cpu_, jit::default_kernel_config(kernel_of(c), jit::Target::cpu()));
  }

  jit::CpuBackend cpu_{jit::default_engine()};
};

// The tensors whose parameters differ.
std::set<int> moved(const StepOutcome& before, const StepOutcome& after) {
  std::set<int> tensors;
  for (const Difference& difference : differences(before, after))
    if (difference.name == "p") tensors.insert(difference.tensor);
  return tensors;
}

TEST_F(StepRuns, GiveEachTensorGradientsOnlyInItsSteps) {
  const StepCase c = adamw({{.sizes = {5}},
                            {.sizes = {2, 3}, .first_step = 2},
                            {.sizes = {4}, .skipped_step = 2},
                            {.sizes = {0}}});
  StepRun run = run_of(c);
  StepOutcome before = run.outcome();
  for (const std::set<int>& expected : {std::set{0, 2}, {0, 1}, {0, 1, 2}}) {
    EXPECT_TRUE(run.step());
    const StepOutcome after = run.outcome();
    EXPECT_EQ(moved(before, after), expected);
    before = after;
  }
  EXPECT_FALSE(run.step());
  EXPECT_EQ(differences(before, run.outcome()), std::vector<Difference>());
  EXPECT_EQ(differences(before, all_of(c)), std::vector<Difference>()) << "the same numbers again";
}

TEST_F(StepRuns, StoreTheBuffersByName) {
  std::set<std::string> names;
  for (const StoredBuffer& buffer : all_of(adamw({{.sizes = {5}}}))) {
    names.insert(buffer.name);
    EXPECT_EQ(buffer.tensor, 0);
  }
  EXPECT_EQ(names, (std::set<std::string>{"p", "g", "residual", "m.codes", "m.meta", "v.codes",
                                          "v.meta"}));
}

TEST_F(StepRuns, UseOtherNumbersWithAnotherSeed) {
  StepCase c = adamw({{.sizes = {5}}});
  const StepOutcome one = all_of(c);
  c.seed = 8;
  EXPECT_EQ(moved(one, all_of(c)), std::set{0});
}

}  // namespace
}  // namespace jitstep::emulation
