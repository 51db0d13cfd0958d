// Builds the optimizer of a choice. The only file beside its .cpp that names jitstep's classes.
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

/// An optimizer, and the bytes of state it holds (torch's own class has no such question).
struct BuiltOptimizer {
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::function<std::int64_t()> state_bytes;
};

/// Makes the rules in these files known to specs.
void load_rules(const std::vector<std::string>& files);

BuiltOptimizer build_optimizer(const OptimizerChoice& choice,
                               const std::vector<torch::Tensor>& parameters);

/// This process's kernels until now.
KernelCounts kernel_counts();

}  // namespace training
