#include "optimizers.h"

#include <jitstep/jitstep.h>
#include <torch/optim/adamw.h>

#include <utility>

namespace training {
namespace {

std::int64_t nbytes(const torch::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

std::int64_t torch_adamw_bytes(torch::optim::AdamW& optimizer) {
  std::int64_t bytes = 0;
  for (const auto& entry : optimizer.state()) {
    const auto& state = static_cast<const torch::optim::AdamWParamState&>(*entry.second);
    bytes += nbytes(state.exp_avg()) + nbytes(state.exp_avg_sq()) + nbytes(state.max_exp_avg_sq());
  }
  return bytes;
}

template <class Optimizer>
BuiltOptimizer with_state_bytes(std::unique_ptr<Optimizer> optimizer) {
  auto state_bytes = [raw = optimizer.get()] { return raw->memory_report().state_bytes(); };
  return {std::move(optimizer), std::move(state_bytes)};
}

}  // namespace

void load_rules(const std::vector<std::string>& files) {
  for (const std::string& file : files) jitstep::load_rule(file);
}

BuiltOptimizer build_optimizer(const OptimizerChoice& choice,
                               const std::vector<torch::Tensor>& parameters) {
  switch (choice.kind) {
    case OptimizerKind::kAdamW:
      return with_state_bytes(std::make_unique<jitstep::AdamW>(
          parameters,
          jitstep::AdamWOptions(choice.lr).weight_decay(kWeightDecay).state(choice.state)));
    case OptimizerKind::kLamb:
      return with_state_bytes(std::make_unique<jitstep::LAMB>(
          parameters,
          jitstep::LAMBOptions(choice.lr).weight_decay(kWeightDecay).state(choice.state)));
    case OptimizerKind::kSpec:
      return with_state_bytes(jitstep::Optimizer::from_spec(parameters, choice.spec));
    case OptimizerKind::kTorchAdamW:
      break;
  }
  auto optimizer = std::make_unique<torch::optim::AdamW>(
      parameters, torch::optim::AdamWOptions(choice.lr).weight_decay(kWeightDecay));
  auto state_bytes = [raw = optimizer.get()] { return torch_adamw_bytes(*raw); };
  return {std::move(optimizer), std::move(state_bytes)};
}

KernelCounts kernel_counts() {
  const jitstep::jit::Statistics statistics = jitstep::kernel_statistics();
  return {statistics.compiled, statistics.from_disk, statistics.from_memory,
          statistics.compile_seconds};
}

}  // namespace training
