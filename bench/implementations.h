// The measured implementations: jitstep's and torch's optimizers, and bandwidth baselines. A description in JSON
// creates each.
#pragma once

#include <torch/optim.h>
#include <torch/types.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace jitstep::bench {

using Tensors = std::vector<torch::Tensor>;

/// One optimizer in a comparison, or a bandwidth baseline.
struct Implementation {
  std::string name;
  std::function<void()> step;
  double state_bytes = 0;  // memory in addition to weights and gradients
  std::vector<double> seconds = {};

  double median() const;
};

/// The name of a dtype, "float32" or "bfloat16", and its inverse. Throws a c10::Error for other dtypes.
std::string dtype_name(torch::Dtype dtype);
torch::Dtype parse_dtype(const std::string& name);

/// Weights with gradients of these shapes. The values are the same in every call. All implementations step the same
/// weights.
Tensors make_parameters(const std::vector<std::vector<std::int64_t>>& shapes, torch::Dtype dtype,
                        const torch::Device& device);

/// `description` has a "kind", which is
///
///   "baseline"     bandwidth_baseline() of bound.h over the parameters and "arrays" arrays of "state"; CPU only
///   "plain AdamW"  plain_adamw() of bound.h; float32 on the CPU only
///   "copy"         a torch copy that reads and writes as many bytes as AdamW with float32 state
///   "torch loop"   torch::optim::AdamW
///   "torch fused"  at::_fused_adamw_, with state in the parameters' dtype
///   "jitstep"      Optimizer::from_spec() of "spec"
///
/// An optional "name" replaces the kind as the implementation's name. Throws a c10::Error or an std::exception for
/// invalid descriptions.
Implementation make_implementation(const nlohmann::json& description, const Tensors& parameters);

/// The bytes that a step must move: it reads weights, gradients and state once, and writes weights and state once.
double bytes_of_step(const Implementation& implementation, const Tensors& parameters);

}  // namespace jitstep::bench
