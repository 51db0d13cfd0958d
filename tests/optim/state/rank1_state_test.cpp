// State whose scale is the smallest of the largest magnitudes along each dimension
// (templates/codecs/int4_rank1.cuh).
#include <cmath>
#include <sstream>

#include "optim/state/stored_squares.h"

namespace jitstep::tests {
namespace {

struct Squares : StoredSquares {
  explicit Squares(torch::Tensor parameter) : StoredSquares(std::move(parameter), "int4_rank1") {}
};

// Takes the largest magnitude along each dimension, and at each element the smallest of these.
torch::Tensor scales_of(const torch::Tensor& values) {
  torch::Tensor scale = torch::full_like(values, HUGE_VAL);
  for (std::int64_t d = 0; d < values.dim(); ++d) {
    torch::Tensor along = values;
    for (std::int64_t other = 0; other < values.dim(); ++other)
      if (other != d) along = std::get<0>(along.max(other, true));
    scale = torch::minimum(scale, along);
  }
  return scale;
}

void expect_stored_closely(const torch::Tensor& gradient) {
  Squares squares(torch::zeros_like(gradient));
  const torch::Tensor stored = squares.stored_after(gradient), exact = gradient.square();
  const torch::Tensor scale = scales_of(exact);
  // Stored values are (code + 1) / 16 of the scale. The error is half a step, except below the first value.
  const torch::Tensor bound = scale * torch::where(exact >= scale / 16, 1.001 / 32, 1.0 / 16);
  EXPECT_TRUE(torch::all((stored - exact).abs() <= bound).item<bool>());
  EXPECT_TRUE(torch::all((stored >= scale / 16.001)).item<bool>())
      << "positive values must not be encoded as zero";
  for (std::int64_t d = 0; d < gradient.dim() && d < 4; ++d) {
    torch::Tensor along = exact;
    for (std::int64_t other = 0; other < gradient.dim(); ++other)
      if (other != d) along = std::get<0>(along.max(other, true));
    EXPECT_TRUE(torch::equal(squares.state().aux_state("v.scale" + std::to_string(d)).flatten(),
                             along.flatten()));
  }
}

TEST(Rank1State, IsWithinHalfAStepOfTheSmallestOfItsScales) {
  torch::manual_seed(1);
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
           {65, 64}, {300, 17}, {1, 40}, {40, 1}, {1, 1}, {5, 6, 70}, {8, 4, 3, 3}})
    expect_stored_closely(torch::randn(sizes) * torch::logspace(-3, 3, sizes.back()));
}

TEST(Rank1State, IsExactForMultiplesOfTheSmallerOfRowAndColumnScale) {
  const torch::Tensor rows = torch::logspace(-4, 4, 40).unsqueeze(1);
  const torch::Tensor columns = torch::logspace(-4, 4, 33).unsqueeze(0);
  const torch::Tensor scale = torch::minimum(rows, columns);
  torch::Tensor codes = torch::arange(40 * 33).view({40, 33}).remainder(16);
  codes = torch::where(scale == std::get<0>(scale.max(0, true)), 15, codes);
  codes = torch::where(scale == std::get<0>(scale.max(1, true)), 15, codes);
  const torch::Tensor values = scale * (codes + 1) / 16;
  Squares squares(torch::zeros({40, 33}));
  EXPECT_TRUE(torch::allclose(squares.stored_after(values.sqrt()), values, 3e-7, 0));
}

TEST(Rank1State, IsInt4ForVectorsAndFloat32ForSmallParameters) {
  const auto expect_codec = [](const torch::Tensor& p, int least, const std::string& begins) {
    p.requires_grad_();
    AdamW optimizer({p}, AdamWOptions().min_quantized_size(least).state("int4_rank1"));
    const std::string codec = to_string(optimizer.formats_of(p).slots.at("v"));
    EXPECT_TRUE(codec.starts_with(begins)) << codec;
  };
  expect_codec(torch::zeros({5000}), 4096, "int4(block=128");
  expect_codec(torch::zeros({}), 0, "int4(block=128");
  expect_codec(torch::zeros({60, 60}), 4096, "fp32");
  expect_codec(torch::zeros({70, 70}), 4096, "int4_rank1(dims=2");
  expect_codec(torch::zeros({2, 2, 2, 2, 2}), 0, "int4_rank1(dims=4");
}

TEST(Rank1State, IsZeroForZerosAndIgnoresNonFiniteValues) {
  Squares squares(torch::zeros({20, 30}));
  EXPECT_TRUE(torch::equal(squares.stored_after(torch::zeros({20, 30})), torch::zeros({20, 30})));
  torch::Tensor gradient = torch::ones({20, 30});
  gradient[3][4] = NAN;
  gradient[5][6] = INFINITY;
  const torch::Tensor stored = squares.stored_after(gradient);
  EXPECT_TRUE(torch::allclose(stored, torch::ones({20, 30})));
}

// A codec with a scale per row and column, for values that the program sets, or for state of another codec.
TEST(Rank1State, IsComputedFromSetValuesByTheSameMaxima) {
  torch::manual_seed(2);
  expect_made_of_values_by_the_same_sums("int4_rank1", "v.scale1");
}

TEST(Rank1State, IsConvertedFromOtherStateInAnArchive) {
  torch::manual_seed(3);
  const torch::Tensor p = torch::randn({5, 8});  // so few that fp8_norm clips none
  for (const char* to : {"int4_rank1", "fp8_norm"}) {
    const auto optimizer = [&](const char* codec) {
      return AdamW({p.clone().requires_grad_()},
                   AdamWOptions(1e-3).min_quantized_size(0).state(codec));
    };
    AdamW exact = optimizer("fp32"), coarse = optimizer(to);
    exact.param_groups()[0].params()[0].mutable_grad() = torch::randn({5, 8});
    exact.step();
    std::stringstream archive;
    torch::save(exact, archive);
    torch::load(coarse, archive);
    const auto stored = [](AdamW& from) {
      return static_cast<AdamWParamState&>(*from.state().begin()->second).exp_avg();
    };
    coarse.param_groups()[0].params()[0].mutable_grad() = torch::zeros({5, 8});
    coarse.step();
    EXPECT_LT((stored(coarse) / 0.9 - stored(exact)).norm().item<double>(),
              0.3 * stored(exact).norm().item<double>())
        << to;
  }
}

}  // namespace
}  // namespace jitstep::tests
