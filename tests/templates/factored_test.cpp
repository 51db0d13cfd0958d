// A second moment stored as row and column means only. Compares AdamW with its formula in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

using Doubles = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

// Rows, columns and matrices with sizes that are not multiples of leaves (256) and vectors, and several matrices in one
// tensor.
const std::vector<Sizes> kSizes = {{7, 131}, {129, 2},    {300, 257},   {1, 1},
                                   {1, 300}, {3, 65, 64}, {2, 2, 3, 3}, {0, 4}};

// The values that the codec stores: for each matrix, row mean times column mean over the mean of all.
Doubles factored(const Doubles& x, const Sizes& sizes) {
  const auto rows = static_cast<std::size_t>(sizes[sizes.size() - 2]),
             columns = static_cast<std::size_t>(sizes.back());
  Doubles stored(x.size());
  for (std::size_t from = 0; from < x.size(); from += rows * columns) {
    Doubles row(rows), column(columns);
    double all = 0;
    for (std::size_t i = 0; i < rows * columns; ++i) {
      row[i / columns] += x[from + i] / static_cast<double>(columns);
      column[i % columns] += x[from + i] / static_cast<double>(rows);
      all += x[from + i] / static_cast<double>(rows * columns);
    }
    for (std::size_t i = 0; i < rows * columns; ++i)
      stored[from + i] = all == 0 ? 0 : row[i / columns] * column[i % columns] / all;
  }
  return stored;
}

// AdamW without weight decay, with the stored second moment.
class Formula {
 public:
  Doubles p;

  Formula(const Sizes& sizes, std::size_t n, double threshold)
      : p(n), sizes_(sizes), threshold_(threshold), m_(n), v_(n) {}

  void step(const std::vector<float>& g, int t) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      m_[i] = 0.9 * m_[i] + 0.1 * g[i];
      v_[i] = 0.999 * v_[i] + 0.001 * double{g[i]} * g[i];
    }
    v_ = factored(v_, sizes_);
    const double first = 1 - std::pow(0.9, t), second = 1 - std::pow(0.999, t);
    const auto size = [&](std::size_t i) { return std::sqrt(v_[i] / second) + 1e-8; };
    double squares = 0;
    for (std::size_t i = 0; i < g.size(); ++i) squares += std::pow(g[i] / size(i), 2);
    const double clip =
        std::max(1.0, std::sqrt(squares / static_cast<double>(g.size())) / threshold_);
    for (std::size_t i = 0; i < g.size(); ++i) p[i] -= 1e-3 * m_[i] / first / size(i) / clip;
  }

 private:
  Sizes sizes_;
  double threshold_;
  Doubles m_, v_;
};

class FactoredMoment : public testing::Test {
 protected:
  PlainSteps<float> steps(std::optional<double> threshold, const std::vector<Sizes>& sizes) {
    jit::OptionValues options("adamw", own_.catalog);
    options.set("weight_decay", 0);
    if (threshold) options.set("clipping_threshold", *threshold);
    return PlainSteps<float>(own_, cpu_, plain_spec(options, {"fp32", "factored"}), options, sizes);
  }

  // Steps from zeros, with gradients of several magnitudes and a row of zeros.
  void expect_followed(std::optional<double> threshold) {
    auto ours = steps(threshold, kSizes);
    std::vector<Formula> theirs;
    for (std::size_t k = 0; k < kSizes.size(); ++k)
      theirs.emplace_back(kSizes[k], ours.p[k].size(), threshold.value_or(HUGE_VAL));
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (int t = 1; t <= 4; ++t) {
      for (std::size_t k = 0; k < kSizes.size(); ++k) {
        for (std::size_t i = 0; i < ours.g[k].size(); ++i)
          ours.g[k][i] =
              i / 131 == 1 ? 0 : normal(random) * std::pow(10.0f, -static_cast<float>(i % 5));
        theirs[k].step(ours.g[k], t);
      }
      ours.step(t);
    }
    for (std::size_t k = 0; k < kSizes.size(); ++k)
      for (std::size_t i = 0; i < ours.p[k].size(); ++i)
        ASSERT_NEAR(ours.p[k][i], theirs[k].p[i], 1e-8 + 1e-5 * std::abs(theirs[k].p[i]))
            << "tensor " << k << ", element " << i;
  }

  OwnTemplates own_;
  jit::CpuBackend cpu_{own_.engine};
};

TEST_F(FactoredMoment, FollowsItsFormulaInEveryShape) { expect_followed({}); }

// The sum over the tensor waits for the stored values and uses them.
TEST_F(FactoredMoment, IsTheInputOfTheRulesOwnSums) { expect_followed(0.5); }

// A matrix has a single square of 1e-37. The inverse of its mean does not fit a float.
TEST_F(FactoredMoment, OfTheSmallestSquaresStaysFinite) {
  auto all = steps({}, {{200, 200}});
  all.g[0][777] = 1e-17f;
  for (int t = 1; t <= 3; ++t) all.step(t);
  for (const float x : all.p[0]) ASSERT_TRUE(std::isfinite(x));
  EXPECT_LT(all.p[0][777], 0);
}

}  // namespace
}  // namespace jitstep::support
