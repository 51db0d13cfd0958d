// What is timed: optimizers with parameters of their own, and the peers they are compared with.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace jitstep::bench {

/// The sizes of the parameters of one comparison, all float32.
struct Workload {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::int64_t elements() const;
};

/// One large tensor, many small ones, and the tensors of a language model, as the device can hold.
std::vector<Workload> workloads(const torch::Device& device);

/// One optimizer in a comparison.
struct Contender {
  std::string name;
  std::function<void()> step;
  double bytes = 0;  // that a step must move: everything read once, what changes written once
  std::vector<double> seconds = {};

  double median() const;
};

/// torch's loop first, torch's fused kernel second, then jitstep's optimizers.
std::vector<Contender> contenders(const Workload& workload, const torch::Device& device);

std::vector<torch::Tensor> make_parameters(const std::vector<std::int64_t>& sizes,
                                           const torch::Device& device);

/// Registers and spills of the kernels that `contenders` runs, as a table; needs no GPU.
std::string kernel_table(const std::string& target);

}  // namespace jitstep::bench
