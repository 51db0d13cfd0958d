// A learning rate that a schedule makes negative: steps go uphill, and nothing becomes NaN.
#include "optim/rule_inputs.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

TEST(NegativeRate, StepsUphillAsTorchDoes) {
  Tensors ours = make_parameters(torch::kFloat64), theirs = clones(ours);
  AdamW a(ours, AdamWOptions(0.1));
  torch::optim::AdamW b(theirs, torch::optim::AdamWOptions(0.1));
  for (int step = 1; step <= 4; ++step) {
    const double lr = step % 2 == 0 ? -0.05 : 0.1;
    a.param_groups()[0].options().set_lr(lr);
    b.param_groups()[0].options().set_lr(lr);
    train(a, ours, step, step);
    train(b, theirs, step, step);
    expect_close(ours, theirs, 1e-12, 1e-12);
  }
}

class NegativeRates : public testing::TestWithParam<std::string> {};

TEST_P(NegativeRates, KeepWeightsFinite) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{6, 5}});
  Optimizer optimizer(GetParam(), parameters);
  auto& options = static_cast<Options&>(optimizer.param_groups()[0].options());
  const double lr = options.get_lr();
  for (int step = 1; step <= 4; ++step) {
    options.set_lr(step == 2 ? -lr : lr);
    set_gradients(parameters, step);
    set_inputs(optimizer, parameters, 1);
    optimizer.step();
    ASSERT_TRUE(parameters[0].isfinite().all().item<bool>()) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, NegativeRates,
                         testing::ValuesIn(shipped(jit::Manifest::Kind::rule)),
                         [](const auto& rule) { return rule.param; });

}  // namespace
}  // namespace jitstep::tests
