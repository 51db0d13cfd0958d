// Gradients that backward() computes, as hooks see them.
#pragma once

#include <vector>

#include "optim/training.h"

namespace jitstep::tests {

/// A loss whose derivatives are the given gradients, bit for bit.
inline torch::Tensor loss_with(const Tensors& parameters, const Tensors& gradients) {
  torch::Tensor loss = torch::zeros({});
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].defined())
      loss = loss + (parameters[i] * gradients[i]).sum().to(torch::kFloat32);
  return loss;
}

inline void backward(const Tensors& parameters, const Tensors& gradients) {
  loss_with(parameters, gradients).backward();
}

inline void backward(const torch::Tensor& p, const torch::Tensor& g) {
  backward(Tensors{p}, Tensors{g});
}

inline Tensors random_gradients(const Tensors& parameters, int batch) {
  torch::manual_seed(500 + batch);
  Tensors gradients;
  for (const torch::Tensor& p : parameters) gradients.push_back(torch::randn_like(p.detach()));
  return gradients;
}

inline torch::Tensor leaf(std::vector<std::int64_t> shape, torch::Dtype dtype = torch::kFloat32) {
  return torch::zeros(shape, dtype).set_requires_grad(true);
}

}  // namespace jitstep::tests
