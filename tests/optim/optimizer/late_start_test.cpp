// State that a rule starts after its first step: options that are switched on in training, and gradients that are zero
// at first.
#include <cmath>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

Tensors near_five() { return {torch::linspace(4.5, 5.5, 50, torch::kFloat64).requires_grad_()}; }

// Without momentum MADGRAD does not store x0. It then recovers the start of training from its stored sums.
TEST(LateStart, OfMadgradMomentumRecoversTheStartOfTraining) {
  Tensors parameters = near_five();
  const torch::Tensor start = parameters[0].detach().clone();
  MADGRAD optimizer(parameters, MADGRADOptions(0.01).momentum(0));
  train(optimizer, parameters, 1, 4);
  const torch::Tensor before = parameters[0].detach().clone();
  static_cast<MADGRADOptions&>(optimizer.param_groups()[0].options()).momentum(0.9);
  train(optimizer, parameters, 5, 6);
  const auto& state =
      static_cast<const ParamState&>(*optimizer.state().at(parameters[0].unsafeGetTensorImpl()));
  EXPECT_TRUE(torch::allclose(state.value("x0"), start, 1e-12));
  EXPECT_LT((parameters[0] - before).abs().max().item<double>(), 0.1);
}

// The second moment starts as the first nonzero squared norm, as in Jasper's and timm's NovoGrad.
TEST(LateStart, OfNovoGradsMomentUsesTheFirstNonzeroGradient) {
  const auto trained = [](int zeros) {
    Tensors parameters = {torch::ones({4}, torch::kFloat64).requires_grad_()};
    NovoGrad optimizer(parameters, NovoGradOptions(0.1));
    for (int step = 0; step < zeros + 2; ++step) {
      parameters[0].mutable_grad() = torch::full({4}, step < zeros ? 0.0 : 1.0, torch::kFloat64);
      optimizer.step();
    }
    return parameters;
  };
  EXPECT_NEAR(trained(0)[0][0].item<double>(), trained(3)[0][0].item<double>(), 1e-12);
}

}  // namespace
}  // namespace jitstep::tests
