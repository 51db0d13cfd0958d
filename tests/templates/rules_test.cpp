// Properties of rules that the recorded trajectories do not reach, compared with formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

jit::OptionValues options_of(const OwnTemplates& own, const std::string& rule,
                             const jit::NamedValues& values) {
  jit::OptionValues options(rule, own.catalog);
  for (const auto& [name, value] : values) options.set(name, value);
  return options;
}

// The trust ratio is 1 if either norm is 0. There is no division by zero, and a tensor of zeros can start.
TEST(Lamb, DoesNotMoveWithoutGradientAndDecay) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "lamb", {});
  PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{3}});
  steps.p[0] = {1, -2, 3};
  for (int t = 1; t <= 2; ++t) steps.step(t);
  EXPECT_EQ(steps.p[0], (std::vector<float>{1, -2, 3}));
}

TEST(Lamb, ScalesAStepByTheNormOfTheWeightsUnlessTheyAreZero) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "lamb", {{"lr", 0.5}, {"eps", 0.0}});
  PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{3}, {3}});
  const std::vector<float> start = {1, -2, 3};
  steps.p[0] = start;
  steps.g = {{4, -4, 4}, {4, -4, 4}};
  steps.step(1);
  const double ratio = std::sqrt(14.0) / std::sqrt(3.0);
  for (int i = 0; i < 3; ++i) {  // Adam's first step is the gradient's sign
    const double sign = i == 1 ? -1 : 1;
    EXPECT_NEAR(steps.p[0][i], start[i] - 0.5 * ratio * sign, 1e-6);
    EXPECT_NEAR(steps.p[1][i], -0.5 * sign, 1e-6);
  }
}

// Without weight decay and maximum norm, this holds for all moments and codecs.
TEST(Lamb, MovesEveryTensorByTheRateTimesItsNorm) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "lamb", {{"lr", 0.125}});
  for (const char* codec : {"fp32", "bf16", "int8", "int4", "fp8_norm"}) {
    SCOPED_TRACE(codec);
    PlainSteps<float> steps(own, cpu, plain_spec(options, {codec, codec}), options,
                            {{300}, {7, 9}});
    for (std::size_t i = 0; i < 300; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        if (i < steps.p[k].size()) steps.p[k][i] = std::sin(static_cast<float>(i + 1));
    for (int t = 1; t <= 4; ++t) {
      const auto before = steps.p;
      for (auto& g : steps.g)
        for (std::size_t i = 0; i < g.size(); ++i)
          g[i] = std::cos(static_cast<float>(i) * 0.7f + t);
      steps.step(t);
      for (std::size_t k = 0; k < 2; ++k) {
        double moved = 0, norm = 0;
        for (std::size_t i = 0; i < before[k].size(); ++i) {
          moved += std::pow(double{steps.p[k][i]} - double{before[k][i]}, 2);
          norm += std::pow(double{before[k][i]}, 2);
        }
        EXPECT_NEAR(std::sqrt(moved / norm), 0.125, 1e-6) << t;
      }
    }
  }
}

// The recorded gradients have norms of at most 1.
TEST(Mars, ClipsATensorsGradientToTheNormOne) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "mars", {});
  PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{1, 2}, {2, 1}});
  steps.g = {{3, -4}, {0.3f, -0.4f}};
  steps.step(1);
  const std::vector<double> clipped = {0.6, -0.8};
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(steps.codes<float>(0, 0)[i], 0.1 * clipped[i], 1e-7);
    EXPECT_NEAR(steps.codes<float>(0, 1)[i], 0.01 * clipped[i] * clipped[i], 1e-7);
    EXPECT_NEAR(steps.codes<float>(1, 0)[i], 0.1 * steps.g[1][i], 1e-7);
  }
}

// torch.maximum propagates a NaN. A second moment whose codec drops NaNs must not hide it.
TEST(AmsGrad, StoresANaN) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "adamw", {{"amsgrad", true}});
  PlainSteps<float> steps(own, cpu, plain_spec(options, {"fp32", "int8", "fp32"}), options, {{2}});
  steps.g[0] = {std::nanf(""), 1};
  steps.step(1);
  steps.g[0] = {1, 1};
  steps.step(2);
  EXPECT_TRUE(std::isnan(steps.codes<float>(0, 2)[0]));
  EXPECT_TRUE(std::isnan(steps.p[0][0]));
  EXPECT_TRUE(std::isfinite(steps.p[0][1]));
}

// The update of both forms is the gradient's sign. The original multiplies it by (1 - b1) / sqrt(1 - b2), but its cap
// hides this factor from the trust ratio.
TEST(Lamb16, TheFirstStepUsesTheTrustRatioOfACappedUpdate) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const double trust = std::pow(1e-3 * 0.25 / 0.01, 0.382);
  for (const auto& [form, size] :
       {std::pair{"original", 0.1 / std::sqrt(0.001)}, {"corrected", 1.0}}) {
    const auto options = options_of(own, "lamb16", {{"lr", 0.01}, {"form", form}});
    PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{4}});
    steps.p[0] = {0.25, -0.25, 0.25, -0.25};
    steps.g[0] = {40, 40, -40, 40};
    steps.step(1);
    EXPECT_NEAR(steps.p[0][0], 0.25 - 0.01 * trust * size, 1e-7) << form;
    EXPECT_NEAR(steps.p[0][2], 0.25 + 0.01 * trust * size, 1e-7) << form;
  }
}

// A schedule that rises over four steps, and decay that accumulates until it exceeds 0.005.
TEST(AdamWBf16, AccumulatesItsDecayAndFollowsItsSchedule) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  auto options =
      options_of(own, "adamw_bf16", {{"lr", 0.01}, {"preheat_steps", 4}, {"weight_decay", 1}});
  const auto after = [&](int last) {
    PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{1}});
    steps.p[0] = {1};
    for (int t = 1; t <= last; ++t) steps.step(t);
    return steps.p[0][0];
  };
  EXPECT_EQ(after(1), 1);
  EXPECT_NEAR(after(2), 1 - 0.005 - 0.0075, 1e-6);
  EXPECT_NEAR(after(4), after(2) * (1 - 0.01) * (1 - 0.01 / std::sqrt(1.25)), 1e-6);
  options.set("initial_accumulated_decay", jit::Value::Numbers{0.001});
  EXPECT_NEAR(after(1), 1 - 0.001 - 0.005, 1e-6);
}

// int4 stores v below the square of the mean gradient. Their plain difference would be negative and have no root.
TEST(RmsProp, CentersEvenIfACodecRoundsItsAveragesInconsistently) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "rmsprop", {{"centered", true}, {"alpha", 0.9}});
  PlainSteps<float> steps(own, cpu, plain_spec(options, {"int4", "fp32", "fp32"}), options, {{2}});
  steps.g[0] = {1, 0.3f};
  for (int t = 1; t <= 20; ++t) steps.step(t);
  EXPECT_LT(steps.p[0][1], 0);
  EXPECT_GT(steps.p[0][1], -10);
}

// The cosine and the radial part of a row of zeros are 0 / 0. The original then projects nothing.
TEST(AdamP, MovesARowOfZerosIfEpsIsZero) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "adamp", {{"lr", 0.5}, {"eps", 0.0}, {"delta", 0.0}});
  PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{2, 3}});
  steps.p[0] = {0, 0, 0, 1, 1, 1};
  steps.g[0] = {2, -3, 4, 5, -6, 7};
  steps.step(1);  // Adam's first step is the gradient's sign
  const std::vector<float> expected = {-0.5f, 0.5f, -0.5f, 0.5f, 1.5f, 0.5f};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(steps.p[0][i], expected[i], 1e-6) << i;
}

TEST(AdamP, KeepsANaNInItsElement) {
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "adamp", {{"lr", 0.5}});
  PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{2, 3}});
  steps.p[0] = {1, 1, 1, 1, 1, 1};
  steps.g[0] = {std::nanf(""), -3, 4, 5, -6, 7};
  steps.step(1);
  EXPECT_TRUE(std::isnan(steps.p[0][0]));
  for (std::size_t i = 1; i < 6; ++i) EXPECT_TRUE(std::isfinite(steps.p[0][i])) << i;
}

// The average is the result of the training, and its updates become too small for few bits.
TEST(Asgd, KeepsItsAverageInFloat32) {
  const jit::OptionValues options("asgd");
  EXPECT_EQ(jit::resolve(options, jit::CodecChoice{"int8"}).codec(0)->name, "fp32");
}

// A product of 0 and infinity would be NaN, and reductions and host transforms would spread it.
TEST(WeightDecay, OfZeroLeavesAnInfiniteParameterOut) {
  const std::vector<std::pair<const char*, jit::NamedValues>> rules = {
      {"lamb", {{"adapt", false}}},
      {"lamb16", {{"adapt", false}}},
      {"nvlamb", {{"weight_decay", 0.0}}},
      {"nvlamb", {{"weight_decay", 0.0}, {"adam_w_mode", false}, {"max_grad_norm", 0.0}}},
      {"lars", {{"adapt", false}}},
      {"larc", {{"adapt", false}}},
      {"shampoo", {}},
      {"stable_adamw", {{"weight_decay", 0.0}, {"weight_decouple", false}}}};
  OwnTemplates own;
  jit::CpuBackend cpu(own.engine);
  for (const auto& [rule, values] : rules) {
    SCOPED_TRACE(rule);
    const auto options = options_of(own, rule, values);
    // The second tensor is the first one with a finite parameter.
    PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{2, 2}, {2, 2}});
    steps.p = {{INFINITY, -2, 3, 4}, {1, -2, 3, 4}};
    steps.g = {{1, -1, 2, 1}, {1, -1, 2, 1}};
    for (int t = 1; t <= 2; ++t) steps.step(t);
    EXPECT_EQ(steps.p[0][0], INFINITY);
    steps.p[0][0] = steps.p[1][0];
    EXPECT_EQ(steps.p[0], steps.p[1]);
  }
}

// Three steps of a format with a residual. The residual is garbage before step 1.
TEST(WeightFormats, StartFromTheParameterAlone) {
  std::ostringstream text;
  text << std::ifstream(JITSTEP_TEST_DATA "/templates/extensions/master32.cuh").rdbuf();
  OwnTemplates own({{"weights/master32.cuh", text.str()}});
  jit::CpuBackend cpu(own.engine);
  const auto options = options_of(own, "sgd", {{"lr", 0.125}});
  jit::KernelSpec spec = plain_spec(options);
  spec.state.weights = "master32";
  spec.state.dtype = jit::Dtype::bfloat16;
  PlainSteps<std::uint16_t, float> steps(own, cpu, spec, options, {{4}});
  steps.p[0] = {0x3f80, 0x4000, 0xbf80, 0x0000};  // 1, 2, -1, 0
  std::vector<float> master = {1, 2, -1, 0};
  for (int t = 1; t <= 3; ++t) {
    steps.g[0] = {0.001f, -0.002f, 0.003f, 0.5f};
    steps.step(t);
    for (std::size_t i = 0; i < 4; ++i) {
      master[i] -= 0.125f * steps.g[0][i];
      EXPECT_EQ(static_cast<const float*>(steps.tensor(0).residual)[i], master[i]) << t;
    }
  }
}

}  // namespace
}  // namespace jitstep::support
