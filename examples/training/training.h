// One training run, for any optimizer and any task.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "flags.h"
#include "optimizers.h"
#include "run.h"
#include "task.h"

namespace training {

/// The device that --device names. Throws if there is none. Applies --threads, and sets flags.threads to the actual
/// number of threads.
torch::Device open_device(Flags& flags);

/// The dtype that --dtype names.
torch::ScalarType parameter_dtype(const Flags& flags);

/// A new task with its optimizer. The constructor throws for an invalid choice.
class Training {
 public:
  Training(const OptimizerChoice& choice, const Problem& problem);

  /// Trains all steps, tests, and returns the results. Call it only once.
  Run run();

 private:
  double step(std::int64_t number);
  void step_optimizer();

  std::int64_t steps_;
  KernelCounts
      before_;  // kernels of this process before the optimizer was built, later before run()
  KernelCounts built_;  // kernels that building the optimizer requested
  std::unique_ptr<Task> task_;
  std::vector<torch::Tensor> parameters_;
  BuiltOptimizer built_optimizer_;
  std::vector<double> step_ms_;
  Run run_;
};

}  // namespace training
