// Weight formats that change, in training or through an archive: the residual is converted.
#include <optional>
#include <utility>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

struct Change {
  std::string from, to;
};

AdamW optimizer_of(const Tensors& parameters, const std::string& weights) {
  return AdamW(parameters, AdamWOptions(0.01).weights(weights));
}

void change_weights(AdamW& optimizer, const std::string& weights) {
  static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).weights(weights);
}

// A matrix, a transposed one, one with gaps, a vector of odd size, a scalar, one without elements.
Tensors sixteen_bits(torch::Dtype dtype = torch::kBFloat16) {
  Tensors parameters = make_parameters(dtype, {{70, 60}, {257}, {}, {0}});
  parameters.push_back(torch::randn({30, 20}, dtype).t().set_requires_grad(true));
  parameters.push_back(torch::randn({8, 40}, dtype).slice(1, 0, 40, 2).set_requires_grad(true));
  return parameters;
}

class ExactConversion : public testing::TestWithParam<Change> {};

TEST_P(ExactConversion, ThereAndBackContinuesBitForBit) {
  const auto& [from, to] = GetParam();
  Tensors parameters = sixteen_bits(), same = clones(parameters);
  AdamW changing = optimizer_of(parameters, from), staying = optimizer_of(same, from);
  train(staying, same, 1, 6);
  train(changing, parameters, 1, 2);
  change_weights(changing, to);
  train(changing, parameters, 3, 4);
  change_weights(changing, from);
  train(changing, parameters, 5, 6);
  expect_equal(changing.fp32_weights(), staying.fp32_weights());
  expect_equal(parameters, same);
}

TEST_P(ExactConversion, AnArchiveContinuesInTheOtherFormat) {
  const auto& [from, to] = GetParam();
  Tensors parameters = sixteen_bits();
  AdamW saved = optimizer_of(parameters, from);
  train(saved, parameters, 1, 3);
  std::stringstream archive;
  torch::save(saved, archive);
  Tensors copies = clones(parameters);
  AdamW loaded = optimizer_of(copies, to);
  Warnings warnings;
  torch::load(loaded, archive);
  EXPECT_HAS(warnings.all, "weights from " + from + " to " + to + " (6 parameters)");
  expect_equal(loaded.fp32_weights(), saved.fp32_weights());
  train(saved, parameters, 4, 5);
  train(loaded, copies, 4, 5);
  expect_equal(loaded.fp32_weights(), saved.fp32_weights());
}

INSTANTIATE_TEST_SUITE_P(Formats, ExactConversion,
                         testing::Values(Change{"master", "split16"}, Change{"split16", "master"}),
                         [](const auto& test) { return test.param.from + "_" + test.param.to; });

class Conversion : public testing::TestWithParam<Change> {};

// The bounds are 127ths of half an ulp, or eight of its bits. The parameter alone has a precision of 2^-9.
TEST_P(Conversion, KeepsTheWeightsToThePrecisionOfTheNewFormat) {
  const auto& [from, to] = GetParam();
  Tensors parameters = sixteen_bits();
  AdamW optimizer = optimizer_of(parameters, from);
  train(optimizer, parameters, 1, 3);
  const Tensors before = optimizer.fp32_weights();
  change_weights(optimizer, to);
  static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).lr(0).weight_decay(0);
  train(optimizer, parameters, 4, 4);
  expect_close(optimizer.fp32_weights(), before, 0x1p-15, 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Conversion,
                         testing::Values(Change{"master", "kahan"}, Change{"master", "split8"},
                                         Change{"kahan", "split16"}, Change{"split8", "master"},
                                         Change{"split8", "kahan"}),
                         [](const auto& test) { return test.param.from + "_" + test.param.to; });

struct Drop {
  std::string from, to;
  torch::Dtype dtype;
};

class DroppedBits : public testing::TestWithParam<Drop> {};

TEST_P(DroppedBits, AreNamedByALoad) {
  const auto& [from, to, dtype] = GetParam();
  Tensors parameters = sixteen_bits();
  AdamW saved = optimizer_of(parameters, from);
  train(saved, parameters, 1, 3);
  std::stringstream archive;
  torch::save(saved, archive);
  Tensors others;
  for (const torch::Tensor& p : parameters)
    others.push_back(p.detach().to(dtype).clone().requires_grad_());
  AdamW loaded = optimizer_of(others, to);
  Warnings warnings;
  torch::load(loaded, archive);
  EXPECT_HAS(warnings.all, "weights from " + from);
  EXPECT_HAS(warnings.all, "without the residual");
  Tensors rounded;
  for (const torch::Tensor& p : others) rounded.push_back(p.detach().to(torch::kFloat));
  expect_equal(loaded.fp32_weights(), rounded);
}

INSTANTIATE_TEST_SUITE_P(Formats, DroppedBits,
                         testing::Values(Drop{"split16", "native", torch::kBFloat16},
                                         Drop{"master", "stochastic", torch::kBFloat16},
                                         Drop{"kahan", "native", torch::kFloat},
                                         Drop{"split16", "master", torch::kHalf}),
                         [](const auto& test) {
                           return test.param.from + "_" + test.param.to + "_" +
                                  std::to_string(test.index);
                         });

TEST(WeightConversion, OfFloat16KeepsTheWeights) {
  Tensors parameters = sixteen_bits(torch::kFloat16);
  AdamW optimizer = optimizer_of(parameters, "split8");
  train(optimizer, parameters, 1, 3);
  const Tensors before = optimizer.fp32_weights();
  std::stringstream archive;
  torch::save(optimizer, archive);
  AdamW loaded = optimizer_of(parameters, "master");
  torch::load(loaded, archive);
  expect_equal(loaded.fp32_weights(), before);
}

// One parameter, 1 + 2^-8, halfway between two bfloat16 numbers. split16 shows the larger one, the
// others the even one.
class Halfway : public testing::Test {
 protected:
  static constexpr float kWeight = 1 + 0x1p-8f, kEven = 1, kLarger = 1 + 0x1p-7f;
  void set_out(const std::string& weights) {
    optimizer_.emplace(parameters_, SGDOptions(1).weights(weights));
    parameters_[0].mutable_grad() = torch::full({300}, -0x1p-8, torch::kBFloat16);
    optimizer_->step();
  }
  float shown() const { return parameters_[0][299].item<float>(); }

  Tensors parameters_ = {torch::ones({300}, torch::kBFloat16).set_requires_grad(true)};
  std::optional<SGD> optimizer_;
};

TEST_F(Halfway, AParameterIsRoundedByItsNewFormat) {
  set_out("master");
  EXPECT_EQ(shown(), kEven);
  parameters_[0].mutable_grad() = torch::zeros_like(parameters_[0]);
  for (const auto& [weights, value] : {std::pair{"split16", kLarger}, std::pair{"master", kEven}}) {
    static_cast<SGDOptions&>(optimizer_->param_groups()[0].options()).weights(weights);
    optimizer_->step();
    EXPECT_EQ(shown(), value) << weights;
    EXPECT_TRUE(optimizer_->fp32_weights()[0].eq(kWeight).all().item<bool>()) << weights;
  }
}

// The archive does not have the second parameter.
TEST_F(Halfway, AFailedLoadDoesNotChangeTheParameter) {
  parameters_.push_back(torch::ones({5}, torch::kBFloat16).set_requires_grad(true));
  parameters_[1].mutable_grad() = torch::ones_like(parameters_[1]);
  set_out("split16");
  std::stringstream archive;
  torch::save(*optimizer_, archive);
  const Tensors others = {parameters_[0], torch::ones({7}, torch::kBFloat16).requires_grad_()};
  SGD other(others, SGDOptions(1).weights("master"));
  EXPECT_HAS(argument_error([&] { torch::load(other, archive); }), "shape");
  EXPECT_EQ(shown(), kLarger);
  EXPECT_TRUE(optimizer_->fp32_weights()[0].eq(kWeight).all().item<bool>());
}

// The step rejects the second parameter after it has bound the first one.
TEST_F(Halfway, AFailedStepDoesNotChangeTheParameter) {
  set_out("split16");
  auto& group = optimizer_->param_groups()[0];
  const auto late = torch::ones({300}, torch::kBFloat16).requires_grad_();
  group.params().push_back(late);
  late.mutable_grad() = torch::ones_like(late);
  auto state = std::make_unique<SGDParamState>();
  state->momentum_buffer(torch::ones({3}));
  state->step() = 1;
  optimizer_->state()[late.unsafeGetTensorImpl()] = std::move(state);
  static_cast<SGDOptions&>(group.options()).weights("master").momentum(0.9);
  EXPECT_HAS(argument_error([&] { optimizer_->step(); }), "shape");
  EXPECT_EQ(shown(), kLarger);
  EXPECT_TRUE(optimizer_->fp32_weights()[0].eq(kWeight).all().item<bool>());
}

}  // namespace
}  // namespace jitstep::tests
