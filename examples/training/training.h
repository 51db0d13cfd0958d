// One training, the same for every optimizer and every task.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "flags.h"
#include "optimizers.h"
#include "run.h"
#include "task.h"

namespace training {

/// The device that --device names; throws when there is none. Obeys --threads, and writes the
/// number of threads in use into the flags.
torch::Device open_device(Flags& flags);

/// The dtype that --dtype names.
torch::ScalarType parameter_dtype(const Flags& flags);

/// A fresh task with its optimizer; construction reports a wrong choice, run() trains.
class Training {
 public:
  Training(const OptimizerChoice& choice, const Problem& problem);

  /// Trains for all steps, tests, and returns what came of it. To be called once.
  Run run();

 private:
  double step(std::int64_t number);
  void step_optimizer();

  std::int64_t steps_;
  KernelCounts before_;  // this process's kernels when the optimizer was not yet built
  KernelCounts built_;   // those that building it took
  std::unique_ptr<Task> task_;
  std::vector<torch::Tensor> parameters_;
  BuiltOptimizer built_optimizer_;
  std::vector<double> step_ms_;
  Run run_;
};

}  // namespace training
