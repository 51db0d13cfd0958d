// HyperParams of one step: of groups at step numbers, and numbers on the device.
#pragma once

#include <vector>

#include "optim/optimizer/stepper.h"

namespace jitstep {

/// The index of a group's HyperParams at step `t` in `hyper_params`. Appends them if needed, and their index to `made`.
/// A parameter with a step counter on the device (`step_offset` defined) gets separate HyperParams.
int hyper_index_for(std::vector<HyperParams>& hyper_params, std::vector<int>& made,
                    const HyperParams& base, std::int64_t t, const torch::Tensor& step_offset);

/// The address of a number on the device. Null if the tensor is undefined.
const float* address(const torch::Tensor& number);

/// Counts a skipped step of an empty tensor, because kernels count for tensors with elements only.
void count_empty(const StepParameter& parameter, const torch::Tensor& found_inf);

/// True if the device skipped the step. Waits for the device.
bool is_skipped(const StepExtras& extras);

}  // namespace jitstep
