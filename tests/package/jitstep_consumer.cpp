// Uses jitstep::jitstep as an outside project does: one step of AdamW must move the parameter.
#include <jitstep/jitstep.h>

#include <iostream>

int main() {
  torch::Tensor weight = torch::ones(1000, torch::requires_grad());
  jitstep::AdamW opt({weight}, jitstep::AdamWOptions(0.5).weight_decay(0));
  weight.sum().backward();
  opt.step();
  const double mean = weight.mean().item<double>();
  std::cout << "after one step: " << mean << "\n";
  return mean > 0.49 && mean < 0.51 ? 0 : 1;
}
