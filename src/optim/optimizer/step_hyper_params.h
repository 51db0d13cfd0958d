// The HyperParams of a step: those of the groups, at step numbers, with the numbers that are on the device.
#pragma once

#include <vector>

#include "optim/optimizer/stepper.h"

namespace jitstep {

/// Not thread-safe. Belongs to the tables of a Stepper.
class StepHyperParams {
 public:
  /// Starts a step without HyperParams. `groups` and `extras` must outlive the calls of index().
  void start(const std::vector<HyperParams>& groups, const StepExtras& extras);

  /// The index of a group's HyperParams at step number t. A parameter whose device counts its skipped steps in
  /// `step_offset` gets HyperParams of its own.
  int index(std::size_t group, std::int64_t t, const torch::Tensor& step_offset) {
    const Last& last = last_[group];
    return last.t == t && !step_offset.defined() ? last.index : add(group, t, step_offset);
  }

  const std::vector<HyperParams>& all() const { return all_; }

 private:
  struct Last {
    std::int64_t t = -1;
    int index = -1;
  };

  int add(std::size_t group, std::int64_t t, const torch::Tensor& step_offset);

  std::vector<HyperParams> all_;
  std::vector<std::vector<int>> shared_;  // by group: indices of those without a step offset
  std::vector<Last> last_;                // by group: what index() returned last from shared_
  const std::vector<HyperParams>* groups_ = nullptr;
  const float *grad_scale_ = nullptr, *found_inf_ = nullptr;
};

/// Counts a step of an empty parameter that the device skips. Kernels count for tensors with elements only.
void count_skipped_if_empty(const StepParam& param, const torch::Tensor& found_inf);

/// True if the device skipped a step. Waits for it.
bool is_skipped(const StepExtras& extras);

}  // namespace jitstep
