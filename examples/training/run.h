// What one training gave. Knows no torch.
#pragma once

#include <cstdint>
#include <vector>

#include "optimizer_choice.h"

namespace training {

/// Kernels that one optimizer asked for, by where they came from.
struct KernelCounts {
  std::int64_t compiled = 0;
  std::int64_t from_disk = 0;
  std::int64_t from_memory = 0;
  double compile_seconds = 0;
};

struct Run {
  OptimizerChoice choice;
  std::vector<double> losses;  // one per step
  std::int64_t parameters = 0;
  std::int64_t state_bytes = 0;
  double test_loss = 0;      // mean
  double test_accuracy = 0;  // in [0, 1]
  double first_step_ms = 0;  // compiles or loads the kernels
  double step_ms = 0;        // median of the other steps, opt.step() alone
  double seconds = 0;        // training and test
  KernelCounts kernels;
};

}  // namespace training
