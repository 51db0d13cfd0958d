// The gradient options of all rules against plain formulas in double. One kernel has all options, as kernels that share
// a sum do. A neutral number must not change any bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

struct Numbers {
  double grad_scale = 1, centralization = 0, max_grad_norm = 0;
};

// Plain SGD with a learning rate of 1, from parameters of zero, so that -p is the gradient that the rule received.
class GradientOptions : public testing::Test {
 protected:
  using Tensors = std::vector<std::vector<float>>;
  using Sizes = std::vector<std::int64_t>;

  // Matrices, a row longer than a leaf, more than two dimensions, a vector and a scalar.
  const std::vector<Sizes> sizes_ = {{5, 40}, {3, 700}, {4, 7, 11}, {7}, {1}};

  static Tensors gradients(const std::vector<Sizes>& sizes, double size) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal(0.3 * size, size);
    Tensors tensors;
    for (const Sizes& one : sizes) {
      std::int64_t n = 1;
      for (const std::int64_t d : one) n *= d;
      tensors.emplace_back();
      for (std::int64_t i = 0; i < n; ++i)
        tensors.back().push_back(static_cast<float>(normal(random)));
    }
    return tensors;
  }

  static HyperParams set_of(const Numbers& numbers) {
    jit::OptionValues options("sgd");
    options.set("lr", 1.0);
    options.set("grad_scale", numbers.grad_scale);
    options.set("centralization", numbers.centralization);
    options.set("max_grad_norm", numbers.max_grad_norm);
    return options.at_step(1);
  }

  // The gradients that the rule receives. Tensor i uses numbers[i], or the last of them.
  static Tensors seen(const std::vector<Sizes>& sizes, const Tensors& g,
                      const std::vector<Numbers>& numbers) {
    OwnTemplates own;
    jit::CpuBackend cpu(own.engine);
    const jit::OptionValues options("sgd", own.catalog);
    jit::KernelSpec spec = plain_spec(options);
    spec.gradient_flags = {{"scaled", true}, {"centralized", true}, {"clipped", true}};
    PlainSteps<float> steps(own, cpu, spec, options, sizes);
    steps.g = g;
    std::vector<HyperParams> sets;
    std::vector<int> used;
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (i < numbers.size()) sets.push_back(set_of(numbers[i]));
      used.push_back(static_cast<int>(sets.size()) - 1);
    }
    steps.step(sets, used);
    for (auto& tensor : steps.p)
      for (float& x : tensor) x = -x;
    return steps.p;
  }

  static double norm(const Tensors& tensors) {
    double sum = 0;
    for (const auto& tensor : tensors)
      for (const float x : tensor) sum += double(x) * x;
    return std::sqrt(sum);
  }

  // torch.nn.utils.clip_grad_norm_
  static double clip_factor(const Tensors& g, double max_norm) {
    return std::min(1.0, max_norm / (norm(g) + 1e-6));
  }

  // The mean that centralization subtracts, for every element. 0 for vectors and scalars.
  static std::vector<double> means(const Sizes& sizes, const std::vector<float>& g) {
    std::vector<double> mean(g.size());
    if (sizes.size() < 2) return mean;
    const std::size_t row = g.size() / static_cast<std::size_t>(sizes[0]);
    for (std::size_t first = 0; first < g.size(); first += row) {
      double sum = 0;
      for (std::size_t i = first; i < first + row; ++i) sum += g[i];
      for (std::size_t i = first; i < first + row; ++i) mean[i] = sum / static_cast<double>(row);
    }
    return mean;
  }

  // Expects (g - share * mean) * factor to within float's rounding.
  void expect_centered(const Tensors& ours, const Tensors& g, double share, double factor) const {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const auto mean = means(sizes_[i], g[i]);
      for (std::size_t k = 0; k < g[i].size(); ++k) {
        const double expected = (g[i][k] - share * mean[k]) * factor;
        ASSERT_NEAR(ours[i][k], expected, 1e-6 * factor * (1 + std::abs(g[i][k])))
            << "tensor " << i << ", element " << k;
      }
    }
  }
};

TEST_F(GradientOptions, WithNeutralNumbersChangeNoBit) {
  const Tensors g = gradients(sizes_, 1);
  EXPECT_EQ(seen(sizes_, g, {{}}), g);
}

TEST_F(GradientOptions, TheGradientIsDividedByItsScale) {
  const Tensors g = gradients(sizes_, 1);
  Tensors scaled = g;
  for (auto& tensor : scaled)
    for (float& x : tensor) x *= 1024;
  EXPECT_EQ(seen(sizes_, scaled, {{.grad_scale = 1024}}), g);
}

// A norm so small that torch's 1e-6 matters.
TEST_F(GradientOptions, ClippingOfATinyNormIsTorchs) {
  const Tensors unit = gradients(sizes_, 1);
  const Tensors g = gradients(sizes_, 1e-5 / norm(unit));
  ASSERT_NEAR(norm(g), 1e-5, 1e-6);
  const Tensors ours = seen(sizes_, g, {{.max_grad_norm = 5e-6}});
  for (std::size_t k = 0; k < g[0].size(); ++k)
    ASSERT_NEAR(ours[0][k] / g[0][k], clip_factor(g, 5e-6), 1e-6);
}

TEST_F(GradientOptions, ANormBelowTheMaximumChangesNoBit) {
  const Tensors g = gradients(sizes_, 1);
  for (const double above : {1.00001, 3.0, 1e6})
    EXPECT_EQ(seen(sizes_, g, {{.max_grad_norm = above * norm(g)}}), g) << above;
}

TEST_F(GradientOptions, CentralizationSubtractsAShareOfEachRowsMean) {
  const Tensors g = gradients(sizes_, 1);
  for (const double share : {1.0, 0.3, -0.5})
    expect_centered(seen(sizes_, g, {{.centralization = share}}), g, share, 1);
}

TEST_F(GradientOptions, CentralizationLeavesVectorsAndScalarsAlone) {
  const std::vector<Sizes> sizes = {{1}, {7}, {300}, {}};
  const Tensors g = gradients(sizes, 1);
  EXPECT_EQ(seen(sizes, g, {{.centralization = 1}}), g);
}

// Like clip_grad_norm_ before a step with centralization: the norm is that of the whole gradient.
TEST_F(GradientOptions, ClippingUsesTheNormBeforeCentralization) {
  Tensors g = gradients(sizes_, 1);
  for (auto& tensor : g)
    for (float& x : tensor) x *= 4;
  expect_centered(seen(sizes_, g, {{.grad_scale = 4, .centralization = 0.7, .max_grad_norm = 2}}),
                  gradients(sizes_, 1), 0.7, clip_factor(gradients(sizes_, 1), 2));
}

// A parameter group without centralization or clipping, in a step in which another group has them.
TEST_F(GradientOptions, NeutralNumbersKeepInfinitiesWhereTheyAre) {
  Tensors g = gradients(sizes_, 1);
  const auto mean = means(sizes_[1], g[1]);
  for (const float odd : {std::numeric_limits<float>::infinity(), 1e30f}) {  // the square overflows
    g[0][3] = odd;
    const Tensors centered = seen(sizes_, g, {{}, {.centralization = 1}});
    EXPECT_EQ(centered[0], g[0]);
    for (std::size_t k = 0; k < mean.size(); ++k)
      ASSERT_NEAR(centered[1][k], g[1][k] - mean[k], 2e-6);
    const Tensors clipped = seen(sizes_, g, {{}, {.max_grad_norm = 1}});
    EXPECT_EQ(clipped[0], g[0]);
    EXPECT_EQ(clipped[1], std::vector<float>(g[1].size()));
  }
}

}  // namespace
}  // namespace jitstep::support
