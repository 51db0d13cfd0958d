// Fits a sine with a small network, using AdamW with 8-bit state.
#include <jitstep/jitstep.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(1, 128), torch::nn::Tanh(),
                              torch::nn::Linear(128, 128), torch::nn::Tanh(),
                              torch::nn::Linear(128, 1));
  jitstep::AdamW opt(model->parameters(),
                     jitstep::AdamWOptions(1e-3).weight_decay(1e-2).state("int8"));
  const auto x = torch::linspace(-3, 3, 256).unsqueeze(1), y = torch::sin(x);
  for (int step = 1; step <= 300; ++step) {
    opt.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), y);
    loss.backward();
    opt.step();
    if (step % 50 == 0) std::cout << "step " << step << ": loss " << loss.item<float>() << "\n";
  }
}
