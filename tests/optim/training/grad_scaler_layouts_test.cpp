// Loss scaling of gradients in every layout: what GradScaler finds in them, and what it divides.
#include <cmath>
#include <functional>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

// Gradients of several layouts. The last one of the 12 elements in memory is an element of each.
using Layout = std::function<torch::Tensor(const torch::Tensor& memory)>;
const std::vector<Layout> kLayouts = {
    [](const torch::Tensor& memory) {
      return memory.view({3, 4}).t();
    },
    [](const torch::Tensor& memory) { return memory.slice(0, 11, 12).expand({5}); },
    [](const torch::Tensor& memory) { return memory.slice(0, 1, 12, 2); },
    [](const torch::Tensor& memory) { return torch::_neg_view(memory); },
    [](const torch::Tensor& memory) {
      return memory.as_strided({5, 4}, {2, 1});
    }};

// The scale after a step with a gradient of each layout. All are ones, except for the last element of one of them.
double scale_after(torch::Dtype dtype, std::size_t which, double last, bool unscales) {
  Tensors parameters = {torch::zeros({6}, dtype).requires_grad_()};
  parameters[0].mutable_grad() = torch::_efficientzerotensor({6}, torch::dtype(dtype));
  for (std::size_t i = 0; i < kLayouts.size(); ++i) {
    torch::Tensor memory = torch::ones({12}, dtype);
    if (i == which) memory[11].fill_(last);
    const torch::Tensor gradient = kLayouts[i](memory);
    parameters.push_back(torch::zeros(gradient.sizes(), dtype).requires_grad_());
    parameters.back().mutable_grad() = gradient;
  }
  AdamW optimizer(parameters);
  GradScaler scaler;
  scaler.scale(torch::ones({}));
  if (unscales) scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  return scaler.get_scale();
}

TEST(GradScaler, FindsNonFiniteValuesInEveryDtypeAndLayout) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kFloat16})
    for (const bool unscales : {false, true}) {
      if (unscales && dtype == torch::kFloat16) continue;  // refused, because they would underflow
      EXPECT_EQ(scale_after(dtype, 0, 1, unscales), 65536) << dtype;
      for (std::size_t which = 0; which < kLayouts.size(); ++which)
        for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)})
          EXPECT_EQ(scale_after(dtype, which, bad, unscales), 32768)
              << bad << " in gradient " << which << " of " << dtype
              << (unscales ? ", unscaled" : "");
    }
}

// Gradients that cannot be divided in place in their own storage. Unscaling must divide their values.
Tensors odd_gradients(double last) {
  const auto negated = torch::_neg_view(torch::full({4}, -last));
  const auto gaps = torch::full({10}, last).slice(0, 0, 10, 2);
  return {negated, torch::full({1}, last).expand({3}), gaps, torch::_efficientzerotensor({2}),
          torch::full({6}, last).as_strided({2, 4}, {2, 1})};
}

TEST(GradScaler, UnscalesGradientsThatCannotBeDividedInPlace) {
  for (const bool unscaled : {false, true})
    for (const double last : {8.0, double(INFINITY)}) {
      Tensors parameters = make_parameters(torch::kFloat32, {{4}, {3}, {5}, {2}, {2, 4}, {3}}),
              twin;
      twin = clones(parameters);
      AdamW optimizer(parameters), other(twin);
      const Tensors odd = odd_gradients(last);
      for (std::size_t i = 0; i < odd.size(); ++i) {
        parameters[i].mutable_grad() = odd[i];
        twin[i].mutable_grad() = odd[i].resolve_neg().contiguous() / 4;
      }
      parameters[5].mutable_grad() = odd[1];  // one gradient for two parameters
      twin[5].mutable_grad() = twin[1].grad().clone();
      GradScaler scaler(GradScalerOptions().init_scale(4));
      scaler.scale(torch::ones({}));
      if (unscaled) {
        scaler.unscale_(optimizer);
        for (std::size_t i = 0; i < twin.size(); ++i)
          EXPECT_TRUE(torch::equal(parameters[i].grad(), twin[i].grad())) << i;
      }
      scaler.step(optimizer);
      scaler.update();
      EXPECT_EQ(scaler.get_scale(), std::isfinite(last) ? 4 : 2);
      if (std::isfinite(last)) other.step();
      expect_equal(parameters, twin);
    }
}

}  // namespace
}  // namespace jitstep::tests
