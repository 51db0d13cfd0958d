// Values of a step that only the device knows (found_inf, grad_scale), and gradients that a step clears.
#include <gtest/gtest.h>

#include <algorithm>

#include "jitstep/jit/engine.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

const std::vector<Difference> kNone;

StepOutcome on_the_cpu(const StepCase& c) {
  jit::CpuBackend cpu(jit::default_engine());
  return run_case(c, cpu, jit::default_kernel_config(kernel_of(c), jit::Target::cpu()));
}

// Tensors that are active in different steps. One of them is in no skipped step before the third.
std::vector<TensorCase> some_tensors() {
  return {{.sizes = {4097}},
          {.sizes = {0}},
          {.sizes = {7, 131}, .first_step = 2},
          {.sizes = {300}, .misalignment = 1, .skipped_step = 2},
          {.sizes = {37, 29}, .transposed = true, .grad_transposed = true, .gaps = true}};
}

StepCase case_of(const jit::KernelSpec& spec, const jit::NamedValues& options = {}) {
  return {.spec = spec, .options = options, .tensors = some_tensors(), .steps = 4};
}

// Whether all gradients are zero.
bool is_zero(const StoredBuffer& buffer) {
  return std::all_of(buffer.bytes.begin() + StoredBuffer::kGuard,
                     buffer.bytes.end() - StoredBuffer::kGuard,
                     [](std::byte byte) { return byte == std::byte{0}; });
}

StepOutcome gradients_of(StepOutcome outcome) {
  std::erase_if(outcome, [](const StoredBuffer& buffer) { return buffer.name != "g"; });
  return outcome;
}
StepOutcome without_gradients(StepOutcome outcome) {
  std::erase_if(outcome, [](const StoredBuffer& buffer) { return buffer.name == "g"; });
  return outcome;
}

// The bits of a case do not change if found_inf skips additional steps between its own.
void expect_unchanged(StepCase c) {
  const StepOutcome expected = on_the_cpu(c);
  c.refused = {1, 3};
  EXPECT_EQ(differences(expected, on_the_cpu(c)), kNone) << c.spec.rule;
  expect_same_bits(c, 2);
}

TEST(SkippedSteps, DoNotCountForBiasCorrectionsAndRandomBits) {
  expect_unchanged(
      case_of(spec_of("adamw", "int8", "stochastic", jit::Dtype::bfloat16, jit::Dtype::bfloat16)));
}

TEST(SkippedSteps, DoNotTouchSumsOfTensorsAndOfAll) {
  expect_unchanged(case_of(spec_of("lamb", "int4"), {{"max_grad_norm", 0.5}}));
}

TEST(SkippedSteps, DoNotAdvanceSharedState) {
  load_test_extensions();
  expect_unchanged(case_of(spec_of("common_estimate", "fp32")));
  expect_unchanged(case_of(spec_of("prodigy", "fp32")));
}

TEST(SkippedSteps, DoNotAdvanceAuxStateOfTensorsAndCodecs) {
  load_test_extensions();
  expect_unchanged(case_of(spec_of("layer_norms", "fp32"), {{"smooth", true}}));
  expect_unchanged(case_of(spec_of("adamw", "tensor_scale8")));
}

TEST(SkippedSteps, DoNotInitializeTheResidual) {
  load_test_extensions();
  expect_unchanged(
      case_of(spec_of("adamw", "fp32", "master32", jit::Dtype::bfloat16, jit::Dtype::bfloat16)));
}

TEST(SkippedSteps, DoNotCountForAModeSwitch) {
  load_test_extensions();
  expect_unchanged(case_of(spec_of("averaged_iterate", "int8", "stochastic", jit::Dtype::bfloat16,
                                   jit::Dtype::bfloat16)));
}

TEST(SkippedSteps, DoNotApplyTheResultOfAHostTransform) {
  load_test_extensions();
  expect_unchanged(case_of(spec_of("staged_momentum", "int8"), {{"max_grad_norm", 0.5}}));
}

TEST(GradScaleOfTheDevice, IsAppliedLikeTheOption) {
  for (const jit::Dtype dtype : {jit::Dtype::float32, jit::Dtype::float64}) {
    const jit::KernelSpec spec = spec_of("adamw", "fp32", "native", dtype, dtype);
    StepCase c = case_of(spec, {{"max_grad_norm", 0.5}}), one = c, both = c;
    c.options["grad_scale"] = 48.0;
    one.grad_scale = 48;
    both.options["grad_scale"] = 3.0;
    both.grad_scale = 16;
    const StepOutcome expected = on_the_cpu(c);
    EXPECT_EQ(differences(expected, on_the_cpu(one)), kNone);
    EXPECT_EQ(differences(expected, on_the_cpu(both)), kNone);
    expect_same_bits(both, 2);
  }
}

TEST(GradScaleOfTheDevice, ChangesNoBitsIfItIsOne) {
  StepCase c = case_of(spec_of("adamw", "int8"));
  c.special_values = true;
  const StepOutcome expected = on_the_cpu(c);
  c.grad_scale = 1;
  EXPECT_EQ(differences(expected, on_the_cpu(c)), kNone);
}

TEST(ClearedGradients, AreZeroAfterTheSameStep) {
  for (const jit::Dtype gradient : {jit::Dtype::float32, jit::Dtype::bfloat16}) {
    StepCase c = case_of(spec_of("lamb", "int8", "native", jit::Dtype::float32, gradient));
    const StepOutcome expected = without_gradients(on_the_cpu(c));
    c.clears = true;
    for (const std::vector<int>& refused : {std::vector<int>{}, {1, 5}}) {
      c.refused = refused;
      const StepOutcome outcome = on_the_cpu(c);
      EXPECT_EQ(differences(expected, without_gradients(outcome)), kNone);
      for (const StoredBuffer& g : gradients_of(outcome)) EXPECT_TRUE(is_zero(g)) << g.tensor;
      expect_same_bits(c, 1);
    }
  }
}

TEST(ClearedGradients, AreUnchangedIfTheyAreNotToBeCleared) {
  for (const StoredBuffer& g : gradients_of(on_the_cpu(case_of(spec_of("lamb", "int8")))))
    EXPECT_EQ(is_zero(g), g.tensor == 1) << g.tensor;
}

}  // namespace
}  // namespace jitstep::support
