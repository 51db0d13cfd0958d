// A second moment that is stored only as its row and column means (templates/codecs/factored.cuh).
#include <sstream>

#include "optim/state/stored_squares.h"

namespace jitstep::tests {
namespace {

struct Squares : StoredSquares {
  explicit Squares(torch::Tensor parameter) : StoredSquares(std::move(parameter), "factored") {}
};

// The factored form of the last two dimensions, in double.
torch::Tensor factored(const torch::Tensor& values) {
  const torch::Tensor wide = values.to(torch::kFloat64);
  const torch::Tensor rows = wide.mean({-1}, true), columns = wide.mean({-2}, true);
  return rows * columns / rows.mean({-2}, true);
}

std::vector<std::vector<std::int64_t>> shapes() {
  return {{65, 64}, {300, 17}, {1, 40}, {40, 1}, {1, 1}, {257, 256}, {5, 6, 70}, {8, 4, 3, 3}};
}

TEST(FactoredState, IsTheProductOfRowAndColumnMeansOverTheMatrixMean) {
  torch::manual_seed(1);
  for (const auto& sizes : shapes()) {
    const torch::Tensor gradient = torch::randn(sizes) * torch::logspace(-3, 3, sizes.back());
    Squares squares(torch::zeros(sizes));
    const torch::Tensor stored = squares.stored_after(gradient), exact = gradient.square();
    EXPECT_TRUE(torch::allclose(stored.to(torch::kFloat64), factored(exact), 1e-6, 0)) << sizes;
    EXPECT_TRUE(torch::allclose(squares.state().aux_state("v.row"), exact.mean(-1), 1e-6, 0))
        << sizes;
    EXPECT_TRUE(torch::allclose(squares.state().aux_state("v.col"), exact.mean(-2), 1e-6, 0))
        << sizes;
    EXPECT_EQ(squares.state().codes("v").numel(), 0);
  }
}

TEST(FactoredState, IsExactForOneRowOrColumnAndForProducts) {
  torch::manual_seed(2);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{1, 300}, {300, 1}, {1, 1}}) {
    const torch::Tensor gradient = torch::randn(sizes);
    EXPECT_TRUE(torch::allclose(Squares(torch::zeros(sizes)).stored_after(gradient),
                                gradient.square(), 1e-6, 0));
  }
  const torch::Tensor roots = torch::rand({40, 1}) * torch::rand({1, 33});
  EXPECT_TRUE(torch::allclose(Squares(torch::zeros({40, 33})).stored_after(roots), roots.square(),
                              2e-6, 0));
}

// The first step already uses the stored values: |g| = sqrt(v) holds at no element except by chance.
TEST(FactoredState, IsTheInputOfTheStep) {
  torch::manual_seed(3);
  for (const auto& sizes : shapes()) {
    const torch::Tensor gradient = torch::randn(sizes);
    Squares squares(torch::zeros(sizes));
    squares.stored_after(gradient);
    const torch::Tensor wanted =
        -1e-3 * gradient / (factored(gradient.square()).sqrt() + 1e-8).to(torch::kFloat32);
    EXPECT_TRUE(torch::allclose(squares.p.detach(), wanted, 1e-5, 0)) << sizes;
  }
}

// A rule's reductions over its new slots use the stored values too: here the root mean square of the step.
TEST(FactoredState, IsTheInputOfARulesReductions) {
  torch::manual_seed(4);
  const torch::Tensor gradient = torch::randn({30, 50}) * torch::logspace(-2, 2, 50);
  const auto step_with = [&](std::optional<double> threshold) {
    torch::Tensor p = torch::zeros({30, 50}).requires_grad_();
    AdamW optimizer({p}, AdamWOptions(1e-3)
                             .weight_decay(0)
                             .clipping_threshold(threshold)
                             .min_quantized_size(0)
                             .state("v", "factored"));
    p.mutable_grad() = gradient;
    optimizer.step();
    return p.detach().clone();
  };
  const double size = (step_with(std::nullopt) / 1e-3).square().mean().sqrt().item<double>();
  EXPECT_GT(size, 1.001) << "the exact squares would give 1";
  const double clipped = (step_with(0.5) / 1e-3).square().mean().sqrt().item<double>();
  EXPECT_NEAR(clipped, 0.5, 1e-4);
}

TEST(FactoredState, IsInt4ForVectorsAndSignedSlotsAndFloat32ForSmallParameters) {
  const auto codec_of = [](const torch::Tensor& p, int least, const char* slot) {
    p.requires_grad_();
    AdamW optimizer({p}, AdamWOptions().min_quantized_size(least).state("factored"));
    return to_string(optimizer.formats_of(p).slots.at(slot));
  };
  EXPECT_EQ(codec_of(torch::zeros({70, 70}), 4096, "v"), "factored");
  EXPECT_EQ(codec_of(torch::zeros({2, 2, 2, 2, 2}), 0, "v"), "factored");
  EXPECT_TRUE(codec_of(torch::zeros({70, 70}), 4096, "m").starts_with("int4("));
  EXPECT_TRUE(codec_of(torch::zeros({5000}), 4096, "v").starts_with("int4("));
  EXPECT_TRUE(codec_of(torch::zeros({}), 0, "v").starts_with("int4("));
  EXPECT_EQ(codec_of(torch::zeros({60, 60}), 4096, "v"), "fp32");
}

TEST(FactoredState, IsRejectedForANamedSignedSlot) {
  try {
    AdamW optimizer({torch::zeros({70, 70}).requires_grad_()},
                    AdamWOptions().state("m", "factored"));
    FAIL() << "no error was thrown";
  } catch (const c10::Error& error) {
    EXPECT_NE(
        std::string(error.what())
            .find("factored cannot store the slot m of adamw: the codec stores only non-negative "
                  "values. Choose another codec for this slot, such as int4"),
        std::string::npos)
        << error.what();
  }
}

TEST(FactoredState, IsZeroForZerosAndIgnoresNonFiniteValues) {
  Squares squares(torch::zeros({20, 30}));
  EXPECT_TRUE(torch::equal(squares.stored_after(torch::zeros({20, 30})), torch::zeros({20, 30})));
  EXPECT_TRUE(torch::equal(squares.p.detach(), torch::zeros({20, 30})));
  torch::Tensor gradient = torch::ones({20, 30}), without = gradient.clone();
  gradient[3][4] = NAN;
  gradient[5][6] = INFINITY;
  without[3][4] = without[5][6] = 0;
  const torch::Tensor stored = squares.stored_after(gradient);
  EXPECT_TRUE(torch::equal(stored, Squares(torch::zeros({20, 30})).stored_after(without)));
  EXPECT_EQ(squares.p.detach().isfinite().sum().item<std::int64_t>(), 20 * 30 - 2);
}

// Means so small that their inverse overflows float: a square of 1e-37 alone in a large matrix.
TEST(FactoredState, IsFiniteForTheSmallestSquares) {
  torch::Tensor gradient = torch::zeros({200, 200});
  gradient[7][9] = 3.2e-19;
  Squares squares(torch::zeros({200, 200}));
  EXPECT_TRUE(squares.stored_after(gradient).isfinite().all().item<bool>());
  EXPECT_TRUE(squares.p.detach().isfinite().all().item<bool>());
}

TEST(FactoredState, OfAnEmptyMatrixIsEmpty) {
  Squares squares(torch::zeros({3, 0}));
  EXPECT_EQ(squares.stored_after(torch::zeros({3, 0})).numel(), 0);
}

// Row and column means that represent values which the program sets, or state of another codec.
TEST(FactoredState, IsComputedFromSetValuesByTheSameSums) {
  torch::manual_seed(5);
  expect_made_of_values_by_the_same_sums("factored", "v.col");
}

AdamW factored_or(const char* codec, const torch::Tensor& p) {
  return AdamW({p.clone().requires_grad_()},
               AdamWOptions(1e-3).min_quantized_size(0).state("v", codec));
}

const AdamWParamState& state_of(AdamW& optimizer) {
  return static_cast<const AdamWParamState&>(*optimizer.state().begin()->second);
}

void step(AdamW& optimizer, const torch::Tensor& gradient) {
  optimizer.param_groups()[0].params()[0].mutable_grad() = gradient;
  optimizer.step();
}

TEST(FactoredState, IsConvertedFromOtherStateAndBackInAnArchive) {
  torch::manual_seed(6);
  const torch::Tensor p = torch::randn({50, 80}), gradient = torch::randn({50, 80});
  AdamW exact = factored_or("fp32", p), coarse = factored_or("factored", p),
        back = factored_or("fp32", p);
  step(exact, gradient);
  std::stringstream there, here;
  torch::save(exact, there);
  torch::load(coarse, there);
  step(coarse, torch::zeros({50, 80}));
  const torch::Tensor stored = state_of(coarse).exp_avg_sq();
  EXPECT_TRUE(torch::allclose(stored.to(torch::kFloat64),
                              0.999 * 0.001 * factored(gradient.square()), 1e-5, 0));
  torch::save(coarse, here);
  torch::load(back, here);
  step(back, torch::zeros({50, 80}));
  EXPECT_TRUE(torch::allclose(state_of(back).exp_avg_sq(), 0.999 * stored, 1e-6, 0));
}

}  // namespace
}  // namespace jitstep::tests
