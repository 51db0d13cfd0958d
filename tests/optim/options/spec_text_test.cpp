#include "optim/options/spec_text.h"

#include "optim/training.h"

namespace jitstep::tests {
namespace {

std::string refusal(const std::string& json) {
  Tensors parameters = make_parameters();
  return argument_error([&] { Optimizer::from_spec(parameters, json); });
}

TEST(SpecText, BuildsTheOptimizerItNames) {
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
  EXPECT_EQ(made->state_bytes(), typed.state_bytes());
  EXPECT_EQ(made->rule(), "adamw");
}

TEST(SpecText, NullMeansNotSet) {
  const auto made = Optimizer::from_spec(
      make_parameters(), R"({"rule": "lamb", "options": {"weight_norm_max": null, "lr": 1}})");
  EXPECT_FALSE(static_cast<LAMBOptions&>(made->defaults()).weight_norm_max().has_value());
}

TEST(SpecText, UnknownNamesAreListedWithWhatThereIs) {
  EXPECT_HAS(refusal(R"({"rule": "adamx"})"), "adamx");
  EXPECT_HAS(refusal(R"({"rule": "adamx"})"), "adamw");
  EXPECT_HAS(refusal(R"({"state": "int8"})"), "names no \"rule\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "colour": 1})"), "colour");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "colour": 1})"), "min_quantized_size");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"learning_rate": 1}})"), "learning_rate");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"learning_rate": 1}})"), "weight_decay");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": "int7"})"), "int7");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": "int7"})"), "int8");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"w": "int8"}})"), "it has m, v, vmax");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"codec": "int8", "blok": 1}})"), "blok");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "weights": "kahn"})"), "kahn");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"decay": "never"}})"), "before");
}

TEST(SpecText, NumbersOutOfRangeAreRefused) {
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": 1e999}})"), "1e999");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "min_quantized_size": 18446744073709551615})"),
             "must be an integer below 2^63, not 18446744073709551615");
}

TEST(SpecText, DeepNestingIsRefused) {
  const std::string lists = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_HAS(refusal(lists), "nested too deeply");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": )" + lists + "}}"),
             "nested too deeply");
}

TEST(SpecText, WrongTypesAreNamed) {
  EXPECT_HAS(refusal("adamw"), "not valid JSON");
  EXPECT_HAS(refusal("[1]"), "must be an object");
  EXPECT_HAS(refusal(R"({"rule": 1})"), "\"rule\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": []})"), "\"options\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": "fast"}})"), "\"lr\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": {}}})"), "\"lr\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"betas": [0.9]}})"), "\"betas\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"betas": [0.9, "x"]}})"), "\"betas\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"amsgrad": 1}})"), "\"amsgrad\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": 8})"), "a codec");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"codec": "int8", "block": "big"}})"), "block");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"codec": "int8", "block": 100}})"), "block");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "seed": -1})"), "\"seed\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "min_quantized_size": 1.5})"), "\"min_quantized_size\"");
}

TEST(SpecText, RangesAreChecked) {
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": -1}})"), "lr is -1");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"betas": [0.9, 1]}})"), "betas[1] is 1");
  EXPECT_HAS(refusal(R"({"rule": "sgd", "options": {"nesterov": true}})"), "Nesterov");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "min_quantized_size": -1})"), "min_quantized_size is -1");
}

}  // namespace
}  // namespace jitstep::tests
