// What a rule and its codecs keep for one parameter beside the slots: Memory.
#include <torch/types.h>

#include <algorithm>

#include "jit/base/text.h"
#include "jitstep/jit/plan.h"
#include "jitstep/param_state.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// The parameter's dimensions that do not run inside an entry.
std::vector<std::int64_t> entry_sizes(const jit::Domain& domain, torch::IntArrayRef sizes) {
  if (sizes.empty()) return {};
  const unsigned reduced = domain.reduced(static_cast<int>(sizes.size()));
  std::vector<std::int64_t> kept;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!(reduced >> d & 1u)) kept.push_back(sizes[d]);
  return kept;
}

}  // namespace

const jit::PlannedMemory& ParamState::planned_memory(const std::string& name) const {
  TORCH_CHECK(is_bound(), "the memory ", name,
              " belongs to no parameter yet; read it after the optimizer took the state");
  const std::vector<jit::PlannedMemory>& fields = buffers_.plan->memory;
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) {
    return field.key == name || field.torch_name == name;
  });
  for (const jit::PlannedMemory& field : buffers_.plan->common)
    TORCH_CHECK(field.key != name && field.torch_name != name, "the memory ", name, " of ", rule_,
                " is kept once for all parameters; ask the optimizer: optimizer.memory(\"", name,
                "\")");
  TORCH_CHECK(found != fields.end(), rule_, " keeps no memory \"", name,
              "\" for this parameter; it keeps ",
              fields.empty() ? "none" : jit::joined(fields, ", ", [](auto& f) { return f.key; }));
  return *found;
}

torch::Tensor ParamState::memory(const std::string& name) const {
  shared_.set();
  const jit::PlannedMemory& field = planned_memory(name);
  const auto& halves = buffers_.memory[static_cast<std::size_t>(field.number)].halves;
  return halves[buffers_.t & 1].view(entry_sizes(field.domain, layout_.sizes));
}

void ParamState::set_memory(const std::string& name, const torch::Tensor& values) {
  const OwnOperations own;
  torch::Tensor now = memory(name);
  TORCH_CHECK(values.sizes() == now.sizes(), "values of shape ", values.sizes(), " for the memory ",
              name, ", whose shape is ", now.sizes());
  now.copy_(values);
}

bool ParamState::keeps_more_of(const torch::Tensor& p) const {
  return is_bound() && buffers_.extra.defined() && fits(p);
}

torch::Tensor ParamState::extra() const {
  shared_.set();
  return buffers_.extra;
}

torch::Tensor ParamState::weights() const { return decode_weights(buffers_, parameter_); }

void ParamState::take_memory(StateBuffers& fresh) const {
  const int turn = static_cast<int>((buffers_.t ^ fresh.t) & 1);  // where the newest half goes
  for (auto& [key, halves] : fresh.memory) {
    const auto held = std::find_if(buffers_.memory.begin(), buffers_.memory.end(),
                                   [&key = key](const auto& field) { return field.key == key; });
    if (held == buffers_.memory.end()) continue;
    for (int half = 0; half < 2; ++half) {
      const torch::Tensor& from = held->halves[half ^ turn];
      TORCH_CHECK(from.numel() == 0 || has_memory(from), "what is kept as \"", key,
                  "\" has no memory; erase the state to start anew");
      if (from.sizes() == halves[half].sizes()) halves[half].copy_(from);
    }
  }
}

}  // namespace jitstep
