// Compares the rule in yogi.cuh with the paper's formulas in torch operations. Both must give the same trajectory.
#include <jitstep/jitstep.h>
#include <torch/torch.h>

#include <cmath>
#include <exception>
#include <iostream>

namespace {

// Algorithm 2 of the paper, line by line. The initial v is 1e-6.
struct Reference {
  bool bias_correction;
  torch::Tensor x, m = torch::zeros_like(x), v = torch::full_like(x, 1e-6);

  void step(const torch::Tensor& g, int t) {
    const double lr = 1e-2, beta1 = 0.9, beta2 = 0.999, eps = 1e-3;
    m = beta1 * m + (1 - beta1) * g;
    v = v - (1 - beta2) * torch::sign(v - g * g) * g * g;
    double rate = lr;
    if (bias_correction) rate *= std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    x = x - rate * m / (torch::sqrt(v) + eps);
  }
};

// The largest difference after 200 steps in float64 with the same gradients.
double difference(bool bias_correction) {
  torch::manual_seed(1);
  auto p = torch::randn({100, 30}, torch::kFloat64).requires_grad_();
  Reference reference{bias_correction, p.detach().clone()};
  jitstep::Optimizer opt("yogi", {p},
                         jitstep::GenericOptions().set("bias_correction", bias_correction));
  for (int t = 1; t <= 200; ++t) {
    p.mutable_grad() = 0.1 * torch::randn_like(p.detach());
    opt.step();
    reference.step(p.grad(), t);
  }
  return (p.detach() - reference.x).abs().max().item<double>();
}

}  // namespace

int main(int count, char** arguments) {
  try {
    jitstep::load_rule(count > 1 ? arguments[1] : EXAMPLE_RULE);
    bool same = true;
    for (const bool bias_correction : {false, true}) {
      const double found = difference(bias_correction);
      std::cout << (bias_correction ? "with" : "without") << " bias correction: " << found << "\n";
      same = same && found < 1e-13;  // the weights are about 1, and each step rounds a few times
    }
    return same ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
