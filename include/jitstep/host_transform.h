// Host transforms: functions that replace whole tensors inside a step, after its reductions and before the last launch.
// Muon's Newton-Schulz iteration is one.
#pragma once

#include <torch/optim/optimizer.h>  // has torch::Tensor, at a tenth of torch/torch.h

#include <functional>
#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"

namespace jitstep {

/// A host transform. `values` has one element per element of one parameter, as the rule's `transformed` returned it. It
/// is a dense tensor of the parameter's sizes on the parameter's device, in float32, or float64 for a float64
/// parameter. The result must have the same sizes. The rule's `update_param` reads it as e.transformed. `options` are
/// those of the parameter's group. Called in every step, without autograd, on the current stream. Several threads may
/// call it at once if several optimizers step. If it throws, step() throws the same exception and nothing has changed.
using TransformFunction =
    std::function<torch::Tensor(const torch::Tensor& values, const jit::OptionValues& options)>;

/// Registers the host transform that rules name by `// host transform: NAME`, for every optimizer that is constructed
/// later. Thread safe. Throws a c10::Error if the name exists. `newton_schulz`, the iteration of torch's Muon, is built
/// in.
JITSTEP_API void register_host_transform(const std::string& name, TransformFunction function);

}  // namespace jitstep
