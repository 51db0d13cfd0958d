// Optimizers from spec texts. tests/jit/codegen/spec_text_test.cpp tests the text itself.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

TEST(FromSpec, BuildsTheOptimizerItNames) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}, {3}}), same = clones(parameters);
  const auto made = Optimizer::from_spec(parameters, R"({"rule": "adamw",
                      "options": {"lr": 0.01, "betas": [0.8, 0.99], "amsgrad": true, "decay": "after",
                                  "max_grad_norm": 1.0},
                      "state": {"m": "int8", "v": {"codec": "int8", "block": 128}}, "seed": 4})");
  AdamW typed(same, AdamWOptions(0.01)
                        .betas({0.8, 0.99})
                        .amsgrad(true)
                        .decay(AdamWOptions::Decay::after)
                        .max_grad_norm(1.0)
                        .state("m", "int8")
                        .state("v", R"({"codec": "int8", "block": 128})")
                        .seed(4));
  EXPECT_TRUE(static_cast<AdamWOptions&>(made->defaults()) ==
              static_cast<AdamWOptions&>(typed.defaults()));
  train(*made, parameters, 1, 3);
  train(typed, same, 1, 3);
  expect_equal(parameters, same);
  EXPECT_EQ(made->memory_report().state_bytes(), typed.memory_report().state_bytes());
  EXPECT_EQ(made->rule(), "adamw");
}

TEST(FromSpec, NullMeansNotSet) {
  const auto made = Optimizer::from_spec(
      make_parameters(), R"({"rule": "lamb", "options": {"weight_norm_max": null, "lr": 1}})");
  EXPECT_FALSE(static_cast<LAMBOptions&>(made->defaults()).weight_norm_max().has_value());
}

TEST(FromSpec, RejectsMistakesWithArgumentErrors) {
  const Tensors parameters = make_parameters();
  const auto error_for = [&](const std::string& json) {
    return argument_error([&] { Optimizer::from_spec(parameters, json); });
  };
  EXPECT_HAS(error_for("adamw"), "not valid JSON");
  EXPECT_HAS(error_for(R"({"rule": "adamx"})"), "adamw");
  EXPECT_HAS(error_for(R"({"rule": "adamw", "options": {"learning_rate": 1}})"), "weight_decay");
  EXPECT_HAS(error_for(R"({"rule": "adamw", "options": {"lr": -1}})"), "lr is -1");
  EXPECT_HAS(error_for(R"({"rule": "adamw", "state": {"w": "int8"}})"), "Slots: m, v, vmax");
}

}  // namespace
}  // namespace jitstep::tests
