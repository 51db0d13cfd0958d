// Adafactor: the averages when gradients change by many orders of magnitude.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

torch::Tensor memory_of(Optimizer& optimizer, const torch::Tensor& p, const std::string& name) {
  auto& state = static_cast<ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
  return state.aux_state(name).clone();
}

// If the last gradient has all of the weight, the average does not depend on earlier ones, however large they were.
TEST(Adafactor, UsesOnlyTheLastGradientIfItHasAllOfTheWeight) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const Tensors parameters = make_parameters(dtype, {{2, 3}, {1, 1}, {2, 5, 300}});
    Adafactor optimizer(parameters, AdafactorOptions().beta2_decay(0));
    for (const double scale : {1e4, 1e-5, 1e-9}) {
      set_gradients(parameters, 1);
      for (const auto& p : parameters) p.mutable_grad().mul_(scale);
      optimizer.step();
      for (const auto& p : parameters) {
        const auto squares = p.grad().square();
        EXPECT_TRUE(torch::allclose(memory_of(optimizer, p, "row_var"), squares.mean(-1), 1e-5, 0))
            << scale << p.sizes();
        EXPECT_TRUE(torch::allclose(memory_of(optimizer, p, "col_var"), squares.mean(-2), 1e-5, 0))
            << scale << p.sizes();
      }
    }
  }
}

// Without a floor of its own, the root mean square of a gradient is at least the epsilon of the parameter's dtype, as in
// torch. The gradients are smaller, so that the update is their ratio to it.
TEST(Adafactor, HasTheEpsilonOfTheParametersDtypeAsItsFloor) {
  for (const auto& [dtype, epsilon] : {std::pair{torch::kFloat64, 0x1p-52},
                                       {torch::kFloat32, 0x1p-23},
                                       {torch::kBFloat16, 0x1p-7},
                                       {torch::kFloat16, 0x1p-10}}) {
    const auto p = torch::ones({8}, dtype).requires_grad_();
    Adafactor optimizer({p}, AdafactorOptions(0.5));
    p.mutable_grad() = torch::full({8}, epsilon / 4, dtype);
    optimizer.step();
    EXPECT_TRUE(torch::allclose(p, torch::full({8}, 1 - 0.5 / 4, dtype))) << dtype << p;
  }
}

// torch's lerp computes from the nearer end. The result must follow it for any weight of the new gradient.
TEST(Adafactor, AveragesLikeTorchLerp) {
  for (const double decay : {-1e-9, -0.3, -0.8, -2.0}) {
    const auto p = torch::ones({3, 4}, torch::kFloat64).requires_grad_();
    Adafactor optimizer({p}, AdafactorOptions().beta2_decay(decay));
    torch::Tensor row = torch::zeros({3}, torch::kFloat64),
                  column = torch::zeros({4}, row.options());
    for (int step = 1; step <= 6; ++step) {
      set_gradients({p}, step);
      p.mutable_grad().mul_(std::pow(10.0, 4 - 5 * (step % 2)));
      optimizer.step();
      const double weight = std::pow(step, decay);
      row = row.lerp(p.grad().square().mean(-1), weight);
      column = column.lerp(p.grad().square().mean(-2), weight);
      EXPECT_TRUE(torch::allclose(memory_of(optimizer, p, "row_var"), row, 1e-12, 0))
          << decay << step;
      EXPECT_TRUE(torch::allclose(memory_of(optimizer, p, "col_var"), column, 1e-12, 0))
          << decay << step;
    }
  }
}

}  // namespace
}  // namespace jitstep::tests
