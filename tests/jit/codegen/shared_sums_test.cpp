#include "jit/codegen/shared_sums.h"

#include <gtest/gtest.h>

#include <string>

#include "jit/codegen/gradient_sum.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

Plan plan_of(const std::string& rule, const std::string& state = "fp32", double max_grad_norm = 0) {
  OptionValues values(rule);
  values.set("max_grad_norm", max_grad_norm);
  Formats formats;
  formats.state = CodecChoice{.name = state};
  return resolve(values, formats, {.dims = 2, .elements = 1 << 20, .sizes = {1024, 1024}});
}

TEST(NeedsAllTensors, HoldsForGlobalSumsAndSharedState) {
  EXPECT_FALSE(needs_all_tensors(plan_of("adamw")));
  EXPECT_FALSE(needs_all_tensors(plan_of("lamb"))) << "its sums are over one tensor";
  EXPECT_TRUE(needs_all_tensors(plan_of("adamw", "fp32", 1.0)));
  EXPECT_TRUE(needs_all_tensors(plan_of("prodigy")));
}

TEST(IsElementwise, HoldsIfAShardCanBeSteppedAlone) {
  for (const char* rule : {"adamw", "sgd", "lion", "nadam"})
    EXPECT_TRUE(is_elementwise(plan_of(rule))) << rule;
  EXPECT_TRUE(is_elementwise(plan_of("adamw", "int8")));
  for (const char* rule : {"lamb", "adafactor", "muon", "prodigy"})
    EXPECT_FALSE(is_elementwise(plan_of(rule))) << rule;
  EXPECT_FALSE(is_elementwise(plan_of("adamw", "fp32", 1.0)));
  EXPECT_FALSE(is_elementwise(plan_of("adamw", "factored"))) << "values per row and column";
}

TEST(GradientSum, RoundsStochasticallyOnRequestAndAddsElementByElement) {
  EXPECT_EQ(gradient_sum_plan(Dtype::bfloat16, true).spec.state.weights, "stochastic");
  EXPECT_EQ(gradient_sum_plan(Dtype::bfloat16, false).spec.state.weights, "native");
  EXPECT_EQ(gradient_sum_plan(Dtype::float32, true).spec.state.weights, "native");
  EXPECT_TRUE(is_elementwise(gradient_sum_plan(Dtype::bfloat16, true)));
}

}  // namespace
}  // namespace jitstep::jit
