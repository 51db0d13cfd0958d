// The results of one training. Does not use torch.
#pragma once

#include <cstdint>
#include <vector>

#include "optimizer_choice.h"

namespace training {

/// The kernels that one optimizer requested, by source.
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
  double first_step_ms = 0;  // includes compiling or loading kernels
  double step_ms = 0;        // median of opt.step() in the other steps
  double seconds = 0;        // training and test
  KernelCounts kernels;
};

}  // namespace training
