// Builds the optimizer of a choice. Only optimizers.h and optimizers.cpp use jitstep.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optimizer_choice.h"
#include "run.h"

namespace training {

/// An optimizer, and a function that returns the bytes of its state, which torch's class does not have.
struct BuiltOptimizer {
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::function<std::int64_t()> state_bytes;
};

/// Loads rules from these files, so that specs can name them.
void load_rules(const std::vector<std::string>& files);

BuiltOptimizer build_optimizer(const OptimizerChoice& choice,
                               const std::vector<torch::Tensor>& parameters);

/// The kernels that this process has requested so far.
KernelCounts kernel_counts();

}  // namespace training
