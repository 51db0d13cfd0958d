// What is timed: jitstep's optimizers, torch's, and the floor under them, each made from a description.
#pragma once

#include <torch/optim.h>
#include <torch/types.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace jitstep::bench {

using Tensors = std::vector<torch::Tensor>;

/// One optimizer in a comparison, or the floor.
struct Contender {
  std::string name;
  std::function<void()> step;
  double state_bytes = 0;  // what it keeps beside weights and gradients
  std::vector<double> seconds = {};

  double median() const;
};

/// "float32" or "bfloat16" of a dtype, and back; of another one an Error.
std::string dtype_name(torch::Dtype dtype);
torch::Dtype parse_dtype(const std::string& name);

/// Weights and gradients of these shapes, the same values for the same seed. Contenders share them: each steps them in its turn.
Tensors make_parameters(const std::vector<std::vector<std::int64_t>>& shapes, torch::Dtype dtype,
                        const torch::Device& device);

/// `description` has a "kind", which is
///
///   "walk"         the plain walk of floor.h over "arrays" arrays of "state" beside the parameters; CPU only
///   "plain AdamW"  its hand-written AdamW; float32 on the CPU only
///   "copy"         torch's copy of half the bytes that AdamW with float state moves, read once and written once
///   "torch loop"   torch::optim::AdamW
///   "torch fused"  at::_fused_adamw_, state in the parameters' dtype
///   "jitstep"      what Optimizer::from_spec makes of "spec"
///
/// An optional "name" replaces the kind as the contender's name. What is unknown is an Error or an std::exception.
Contender make_contender(const nlohmann::json& description, const Tensors& parameters);

/// The bytes that a step must move: everything read once, what changes written once.
double bytes_of_step(const Contender& contender, const Tensors& parameters);

}  // namespace jitstep::bench
