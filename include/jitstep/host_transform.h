// Functions of the host that rules name: what is done to the whole tensor between a step's sums and its last
// launch, such as Muon's iteration over matrices.
#pragma once

#include <torch/optim/optimizer.h>  // has torch::Tensor, at a tenth of torch/torch.h

#include <functional>
#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"

namespace jitstep {

/// Given `values`, what a rule's `transformed` returned for each element of one parameter: a dense tensor of its sizes,
/// on its device, float32 or (of a float64 parameter) float64. Returns a tensor of the same sizes, which the
/// rule's `update_param` reads as e.transformed. `options`: those of the parameter's group, by name. Called in every
/// step, without gradients and on the current stream; by several threads at once if several optimizers step.
/// What it throws, step() throws, and nothing has changed then.
using TransformFunction =
    std::function<torch::Tensor(const torch::Tensor& values, const jit::OptionValues& options)>;

/// Adds the stage that rules name by `// host transform: NAME`, for every optimizer made from now on. Thread safe. A
/// c10::Error if there is one of this name already. `newton_schulz`, which torch's Muon iterates, is there.
JITSTEP_API void register_host_transform(const std::string& name, TransformFunction function);

}  // namespace jitstep
