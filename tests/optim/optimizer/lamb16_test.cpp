// LAMB16: each test holds the corrected form to a property, and shows that the original form lacks it. tests/golden
// records the steps of the original.
#include <cmath>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using Form = LAMB16Options::Form;

// One step per gradient, in order.
void step(Optimizer& optimizer, const torch::Tensor& p, const Tensors& gradients) {
  for (const torch::Tensor& g : gradients) {
    p.mutable_grad() = g;
    optimizer.step();
  }
}

std::string codecs_of(const LAMB16Options& options, std::int64_t size) {
  const auto p = leaf(torch::ones({size}));
  const LAMB16 optimizer({p}, options);
  const auto formats = optimizer.formats_of(p);
  return formats.slots.at("m").name + " " + formats.slots.at("v").name;
}

TEST(Lamb16, QuantizesLargeParametersByTheFormatOfItsForm) {
  EXPECT_EQ(codecs_of(LAMB16Options(), 4096), "int8_softsign int8_softsign");
  EXPECT_EQ(codecs_of(LAMB16Options(), 4095), "fp32 fp32");
  EXPECT_EQ(codecs_of(LAMB16Options().form(Form::original), 1), "fp8_norm fp8_norm");
  EXPECT_EQ(codecs_of(LAMB16Options().form(Form::original).state("v", "bf16"), 1), "fp8_norm bf16");
  EXPECT_EQ(codecs_of(LAMB16Options().state("int8"), 4096), "int8 int8");
}

TEST(Lamb16, ConvertsItsStateWhenTheFormChanges) {
  const auto p = leaf(torch::ones({5}));
  LAMB16 optimizer({p}, LAMB16Options());
  p.mutable_grad() = torch::ones({5});
  optimizer.step();
  const torch::Tensor before = state_of<LAMB16ParamState>(optimizer, p).exp_avg().clone();
  static_cast<LAMB16Options&>(optimizer.param_groups()[0].options()).form(Form::original);
  p.mutable_grad() = torch::zeros({5});
  optimizer.step();
  EXPECT_EQ(optimizer.formats_of(p).slots.at("m").name, "fp8_norm");
  EXPECT_TRUE(
      torch::allclose(state_of<LAMB16ParamState>(optimizer, p).exp_avg(), 0.9 * before, 0x1p-3));
}

// The cosine between the stored momentum and the float32 momentum, after some steps of Gaussian gradients.
double cosine_of_momentum(const LAMB16Options& options, std::int64_t size) {
  torch::manual_seed(3);
  const auto p = leaf(torch::zeros({size}));
  LAMB16 optimizer({p}, options);
  torch::Tensor exact = torch::zeros({size});
  for (int t = 1; t <= (size > 1000000 ? 6 : 20); ++t) {
    p.mutable_grad() = torch::randn({size});
    exact.mul_(0.9).add_(p.grad(), 0.1);
    optimizer.step();
  }
  const torch::Tensor stored = state_of<LAMB16ParamState>(optimizer, p).exp_avg();
  EXPECT_TRUE(torch::isfinite(stored).all().item<bool>());
  return (stored.dot(exact) / (stored.norm() * exact.norm())).item<double>();
}

// In the original, multiples of a norm that shrinks with the size saturate: nine tenths of 25 000 elements do.
TEST(Lamb16, KeepsTheDirectionOfItsMomentumInTensorsOfEverySize) {
  const auto options = LAMB16Options().min_quantized_size(0);
  for (const std::int64_t size : {10, 300, 25000, 400000, 10000000})
    EXPECT_GT(cosine_of_momentum(options, size), 0.999) << size;
  EXPECT_LT(cosine_of_momentum(LAMB16Options().form(Form::original), 25000), 0.9);
}

// The second moment of equal gradients after ten steps, divided by its exact value.
double share_of_second_moment(const LAMB16Options& options, float gradient) {
  const auto p = leaf(torch::zeros({4096}));
  LAMB16 optimizer({p}, options);
  step(optimizer, p, Tensors(10, torch::full({4096}, gradient)));
  const double exact = double{gradient} * gradient * (1 - std::pow(0.999, 10));
  return state_of<LAMB16ParamState>(optimizer, p).exp_avg_sq().min().item<double>() / exact;
}

// In the original, a gradient below 8.7e-5 never adds up, because each step encodes its square as zero.
TEST(Lamb16, AddsUpTheSquaresOfSmallGradients) {
  for (const float gradient : {1.0f, 1e-4f, 1e-6f, 1e-9f, 1e-12f})
    EXPECT_NEAR(share_of_second_moment(LAMB16Options(), gradient), 1, 0.02) << gradient;
  EXPECT_EQ(share_of_second_moment(LAMB16Options().form(Form::original), 1e-6f), 0);
}

TEST(Lamb16, KeepsASmallSecondMomentNextToALargeOne) {
  const auto p = leaf(torch::zeros({4096}));
  LAMB16 optimizer({p}, LAMB16Options());
  auto g = torch::full({4096}, 1e-9);
  g.slice(0, 0, 4096, 64).fill_(1);
  step(optimizer, p, Tensors(5, g));
  EXPECT_GT(state_of<LAMB16ParamState>(optimizer, p).exp_avg_sq().min().item<float>(), 0);
  EXPECT_LT(p.abs().max().item<float>(), 1) << "the step divided by a lost second moment";
}

// How far an element moves in ten steps of gradient -1, after steps in which its gradient exceeded all others by far.
double way_after_an_outlier(const LAMB16Options& options) {
  torch::manual_seed(4);
  const auto p = leaf(torch::zeros({60000}));
  LAMB16 optimizer({p}, options);
  auto g = torch::randn({60000}) * 1e-3;
  g[7] = 40;
  step(optimizer, p, Tensors(6, g));
  const double before = p[7].item<double>();
  g[7] = -1;
  step(optimizer, p, Tensors(200, g));
  return std::abs(p[7].item<double>() - before);
}

// In the original its second moment stays infinite from then on, and every step divides by it.
TEST(Lamb16, MovesAWeightAgainAfterAnOutlierGradient) {
  EXPECT_GT(way_after_an_outlier(LAMB16Options(0.01)), 1e-3);
  EXPECT_EQ(way_after_an_outlier(LAMB16Options(0.01).form(Form::original)), 0);
}

// Three steps, the second of which has a non-finite gradient. Returns the number of finite weights.
std::int64_t finite_after(const LAMB16Options& options, std::int64_t size, double bad) {
  torch::manual_seed(5);
  const auto p = leaf(torch::ones({size}));
  LAMB16 optimizer({p}, options);
  for (int t = 1; t <= 3; ++t) {
    p.mutable_grad() = torch::randn({size});
    if (t == 2) p.mutable_grad()[3] = bad;
    const auto before = p.detach().clone();
    optimizer.step();
    if (options.form() == Form::original) continue;
    const auto others = torch::arange(size).ne(3);
    EXPECT_TRUE(torch::all(p.index({others}) != before.index({others})).item<bool>()) << t;
  }
  return torch::isfinite(p).sum().item<std::int64_t>();
}

// In the original the norms become NaN, and so does the whole tensor.
TEST(Lamb16, ANonFiniteGradientAffectsOnlyItsElement) {
  for (const std::int64_t size : {100, 5000})
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
      EXPECT_EQ(finite_after(LAMB16Options(0.01), size, bad), size - 1) << size << " " << bad;
  EXPECT_EQ(finite_after(LAMB16Options(0.01).form(Form::original), 5000, std::nan("")), 0);
}

TEST(Lamb16, StandsStillAtALearningRateOfZero) {
  for (const Form form : {Form::corrected, Form::original}) {
    const auto p = leaf(torch::full({5000}, 0.5));
    LAMB16 optimizer({p}, LAMB16Options(0).form(form).weight_decay(0.1));
    step(optimizer, p, {torch::ones({5000}), torch::zeros({5000})});
    EXPECT_TRUE(torch::equal(p, torch::full({5000}, 0.5)));
  }
}

// The original computes its norms in the parameters' float16, where they overflow to infinity.
TEST(Lamb16, ComputesNormsOfFloat16ParametersInFloat32) {
  const auto options = LAMB16Options(0.5);
  const auto half = leaf(torch::full({100000}, 200, torch::kFloat16));
  const auto wide = leaf(torch::full({100000}, 200, torch::kFloat32));
  LAMB16 of_half({half}, options), of_wide({wide}, options);
  step(of_half, half, {torch::full({100000}, 3, torch::kFloat16)});
  step(of_wide, wide, {torch::full({100000}, 3, torch::kFloat32)});
  EXPECT_NEAR(wide[0].item<double>(), 200 - 0.5 * std::pow(1e-3 * 200 / 0.5, 0.382), 1e-3);
  EXPECT_NEAR(half[0].item<double>(), wide[0].item<double>(), 0.0626) << "half an ulp of float16";
}

}  // namespace
}  // namespace jitstep::tests
