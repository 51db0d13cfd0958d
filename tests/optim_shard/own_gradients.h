// Gradients of ranks and micro-batches, through backward(), and optimizers that reduce them.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "optim_shard/ranks.h"

namespace jitstep::tests {

inline ShardOptions own_gradients(bool in_backward = true) {
  return ShardOptions()
      .gradients(ShardOptions::Gradients::own)
      .in_backward(in_backward)
      .bucket_bytes(20000);
}

/// The gradient of one micro-batch, of all ranks' micro-batches in a step. Undefined if it has none: parameter 3 has one
/// in a single micro-batch, and the last parameter in none.
inline torch::Tensor gradient_of(const Tensors& parameters, std::size_t i, int step, int index) {
  const bool is_last = i + 1 == parameters.size();
  if (is_last || (i == 3 && index != 1)) return {};
  auto random = at::detail::createCPUGenerator(
      static_cast<std::uint64_t>(1000 * step + 100 * index + static_cast<int>(i)));
  return torch::randn(parameters[i].sizes(), random).to(parameters[i].scalar_type());
}

inline torch::Tensor loss_of(const Tensors& parameters, int step, int index) {
  torch::Tensor loss = torch::zeros({}, parameters[0].options().requires_grad(false));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (const auto g = gradient_of(parameters, i, step, index); g.defined())
      loss = loss + (parameters[i] * g).sum();
  return loss;
}

/// What training with average_gradients() and mean gradients ends with. All ranks call it.
inline Tensors averaged(const Group& group, const std::string& spec, Tensors parameters,
                        int steps) {
  const auto optimizer = Optimizer::from_spec(parameters, spec);
  optimizer->shard(group);
  for (int step = 1; step <= steps; ++step) {
    optimizer->zero_grad();
    loss_of(parameters, step, group->getRank()).backward();
    average_gradients(parameters, group);
    optimizer->step();
  }
  return parameters;
}

}  // namespace jitstep::tests
