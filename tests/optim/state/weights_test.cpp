// Weight formats with a residual: their precision, the weights that they show, and parameters that the program sets.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

// Parameters of this dtype, including strided, misaligned and empty ones.
Tensors parameters_of(torch::Dtype dtype) {
  Tensors parameters = make_parameters(dtype, {{40, 30}, {257}, {}, {0}, {1}});
  parameters.push_back(torch::randn({30, 20}, dtype).t().set_requires_grad(true));
  parameters.push_back(
      torch::randn({300}, dtype).slice(0, 1, 300).detach().set_requires_grad(true));
  return parameters;
}

Tensors floats(const Tensors& tensors) {
  Tensors converted;
  for (const auto& tensor : tensors)
    converted.push_back(
        tensor.detach().to(torch::kFloat32, false, true).set_requires_grad(tensor.requires_grad()));
  return converted;
}

// Steps both with equal gradients, which the parameters' format can represent.
void train_alike(Optimizer& optimizer, const Tensors& parameters, Optimizer& other,
                 const Tensors& wide, int first, int last) {
  for (int step = first; step <= last; ++step) {
    set_gradients(parameters, step);
    for (std::size_t i = 0; i < wide.size(); ++i)
      wide[i].mutable_grad() = parameters[i].grad().to(torch::kFloat32);
    optimizer.step();
    other.step();
  }
}

TEST(Weights, OfAParameterWithGapsAreTheParameter) {
  for (const char* format : {"native", "stochastic", "master", "split16", "split8", "kahan"}) {
    SCOPED_TRACE(format);
    const torch::Tensor base = torch::arange(1, 41).to(torch::kBFloat16).view({4, 10});
    torch::Tensor p = base.slice(1, 0, 10, 2).detach().requires_grad_();
    ASSERT_FALSE(p.is_non_overlapping_and_dense());
    SGD optimizer({p}, SGDOptions(0).weights(format));
    p.mutable_grad() = torch::ones_like(p);
    optimizer.step();
    expect_equal(optimizer.fp32_weights(), {p.detach().to(torch::kFloat32)});
  }
}

struct Exact {
  const char* weights;
  torch::Dtype dtype;
};

class ExactWeightFormat : public testing::TestWithParam<Exact> {};

TEST_P(ExactWeightFormat, TrainsLikeFloat32) {
  const auto [format, dtype] = GetParam();
  for (const char* rule : {"adamw", "lamb", "schedulefree_adamw"}) {
    Tensors parameters = parameters_of(dtype), wide = floats(parameters);
    Optimizer ours(rule, parameters, GenericOptions(0.01).weights(format));
    Optimizer theirs(rule, wide, GenericOptions(0.01));
    train_alike(ours, parameters, theirs, wide, 1, 6);
    expect_equal(ours.fp32_weights(), floats(wide));
    ours.eval(), theirs.eval();
    expect_equal(ours.fp32_weights(), floats(wide));
    ours.train(), theirs.train();
    train_alike(ours, parameters, theirs, wide, 7, 8);
    expect_equal(ours.fp32_weights(), floats(wide));
    for (std::size_t i = 0; i < wide.size(); ++i)
      EXPECT_TRUE(torch::allclose(parameters[i].to(torch::kFloat32), wide[i], 0x1p-8, 1e-6));
  }
}

TEST_P(ExactWeightFormat, ContinuesFromAnArchiveBitForBit) {
  const auto [format, dtype] = GetParam();
  Tensors parameters = parameters_of(dtype);
  const auto options = AdamWOptions(0.01).weights(format);
  AdamW optimizer(parameters, options);
  train(optimizer, parameters, 1, 3);
  std::stringstream archive;
  torch::save(optimizer, archive);
  Tensors copies = clones(parameters);
  AdamW resumed(copies, options);
  torch::load(resumed, archive);
  train(resumed, copies, 4, 6);
  train(optimizer, parameters, 4, 6);
  expect_equal(resumed.fp32_weights(), optimizer.fp32_weights());
}

INSTANTIATE_TEST_SUITE_P(Formats, ExactWeightFormat,
                         testing::Values(Exact{"master", torch::kBFloat16},
                                         Exact{"master", torch::kFloat16},
                                         Exact{"split16", torch::kBFloat16}),
                         [](const auto& test) {
                           return test.param.weights + std::string("_") +
                                  toString(test.param.dtype);
                         });

class WeightFormat : public testing::TestWithParam<std::string> {};

// 2000 updates of 2^-14, each a 64th of the parameter's ulp.
TEST_P(WeightFormat, AccumulatesUpdatesBelowTheParametersPrecision) {
  Tensors parameters = {torch::ones({300}, torch::kBFloat16).set_requires_grad(true)};
  SGD optimizer(parameters, SGDOptions(0x1p-14).weights(GetParam()));
  parameters[0].mutable_grad() = torch::ones_like(parameters[0]);
  for (int step = 0; step < 2000; ++step) optimizer.step();
  const float expected = 1 - 2000 * 0x1p-14f;
  EXPECT_NEAR(optimizer.fp32_weights()[0][299].item<float>(), expected, 0x1p-8f);
  EXPECT_NEAR(parameters[0][0].item<float>(), expected, 0x1p-8f);
}

TEST_P(WeightFormat, StartsFromAParameterThatTheProgramSet) {
  Tensors parameters = make_parameters(torch::kBFloat16, {{70, 60}});
  SGD optimizer(parameters, SGDOptions(0x1p-10).weights(GetParam()));
  train(optimizer, parameters, 1, 2);
  const auto set = torch::randn({70, 60}, torch::kBFloat16);
  {
    torch::NoGradGuard no_grad;
    parameters[0].copy_(set);
  }
  parameters[0].mutable_grad() = torch::zeros_like(parameters[0]);
  optimizer.step();
  EXPECT_TRUE(
      torch::allclose(parameters[0].to(torch::kFloat32), set.to(torch::kFloat32), 0x1p-7, 0));
  EXPECT_TRUE(torch::allclose(optimizer.fp32_weights()[0], set.to(torch::kFloat32), 0x1p-7, 0));
}

INSTANTIATE_TEST_SUITE_P(Formats, WeightFormat,
                         testing::Values("kahan", "master", "split16", "split8"),
                         [](const auto& test) { return test.param; });

TEST(Fp32Weights, AreTheParametersIfThereIsNoResidual) {
  Tensors parameters = make_parameters(torch::kFloat64, {{5, 3}, {0}, {}});
  parameters.push_back(torch::randn({4, 6}, torch::kBFloat16).t().set_requires_grad(true));
  AdamW optimizer(parameters);
  expect_equal(optimizer.fp32_weights(), floats(parameters));
  train(optimizer, parameters, 1, 2);
  const Tensors weights = optimizer.fp32_weights();
  expect_equal(weights, floats(parameters));
  train(optimizer, parameters, 3, 3);
  EXPECT_FALSE(torch::equal(weights[0], optimizer.fp32_weights()[0]))
      << "fp32_weights() must return copies";
}

TEST(Fp32Weights, AreTheParameterIfItsShapeOrDtypeChanged) {
  Tensors parameters = make_parameters(torch::kBFloat16, {{40, 30}});
  AdamW optimizer(parameters, AdamWOptions().weights("split16"));
  train(optimizer, parameters, 1, 2);
  parameters[0].set_data(torch::ones({7}, torch::kBFloat16));
  expect_equal(optimizer.fp32_weights(), {torch::ones({7})});
}

}  // namespace
}  // namespace jitstep::tests
