// An offloaded optimizer of parameters on the device, and the same optimizer of parameters on the CPU.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include "optim/optimizer/cuda.h"

namespace jitstep::tests {

/// Computes gradients in backward(), equal ones for equal numbers.
inline void backward_same(const Tensors& parameters, int number) {
  torch::manual_seed(2000 + number);
  Tensors gradients;
  for (const torch::Tensor& p : parameters)
    gradients.push_back(torch::randn(p.sizes(), p.scalar_type()).to(p.device()));
  torch::autograd::backward(parameters, gradients);
}

struct OffloadedPair {
  explicit OffloadedPair(const std::string& spec, torch::Dtype dtype = torch::kFloat32,
                         const OffloadOptions& options = {})
      : here(make_parameters(dtype, {{37, 29}, {300}, {1}, {0}, {}})),
        there(to(here, kGpu)),
        host(Optimizer::from_spec(here, spec)),
        offloaded(Optimizer::from_spec(there, spec)) {
    offloaded->offload(options);
  }

  void train(int first, int last) {
    for (int step = first; step <= last; ++step) {
      train_same(*host, here, step, step);
      train_same(*offloaded, there, step, step);
    }
  }
  void backward(int number) {
    backward_same(here, number);
    backward_same(there, number);
  }
  void step() {
    host->step(), offloaded->step();
    host->zero_grad(), offloaded->zero_grad();
  }
  void expect_equal() const { expect_same_bits(there, here); }

  Tensors here, there;
  std::unique_ptr<Optimizer> host, offloaded;
};

}  // namespace jitstep::tests
