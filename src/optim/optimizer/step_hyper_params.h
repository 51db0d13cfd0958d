// The numbers that a step is taken with: those of groups, at step numbers, and those that lie on the device.
#pragma once

#include <vector>

#include "optim/optimizer/stepper.h"

namespace jitstep {

/// The set of a group at a step number, made at its first use in this step. A parameter whose device counts
/// steps that it skips has one of its own, which is none of those that were made for others.
int hyper_index_for(std::vector<HyperParams>& hyper_params, std::vector<int>& made,
                    const HyperParams& base, std::int64_t t, const torch::Tensor& step_offset);

/// Where a number on the device lies; null without one.
const float* address(const torch::Tensor& number);

/// What kernels count they count for tensors with elements.
void count_empty(const StepParameter& parameter, const torch::Tensor& found_inf);

/// Whether the device skipped a step. Waits for it.
bool is_skipped(const StepExtras& extras);

}  // namespace jitstep
