// What a rule and its codecs keep for one parameter beside the slots: Memory.
#include <torch/types.h>

#include <algorithm>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jitstep/jit/plan.h"
#include "jitstep/param_state.h"
#include "optim/state/weight_conversion.h"
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

const jit::ResolvedAuxState& ParamState::resolved_aux_state(const std::string& name) const {
  TORCH_CHECK(buffers_.plan != nullptr, "the memory ", name,
              " belongs to no parameter yet; read it after the optimizer took the state");
  const std::vector<jit::ResolvedAuxState>& fields = buffers_.plan->aux_state;
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) {
    return field.key == name || field.torch_name == name;
  });
  for (const jit::ResolvedAuxState& field : buffers_.plan->shared_state)
    TORCH_CHECK(field.key != name && field.torch_name != name, "the memory ", name, " of ", rule_,
                " is kept once for all parameters; ask the optimizer: optimizer.aux_state(\"", name,
                "\")");
  std::vector<std::string> keys;
  for (const jit::ResolvedAuxState& field : fields) keys.push_back(field.key);
  TORCH_CHECK(found != fields.end(), rule_, " keeps no memory \"", name, "\" for this parameter",
              jit::did_you_mean(name, keys), "; it keeps ",
              keys.empty() ? "none" : jit::joined(keys));
  return *found;
}

// Those of a codec are no longer there once a copy's slots were set to values of another shape.
std::size_t ParamState::aux_index(const jit::ResolvedAuxState& field) const {
  const auto held = std::find_if(buffers_.aux_state.begin(), buffers_.aux_state.end(),
                                 [&](const auto& one) { return one.key == field.key; });
  TORCH_CHECK(held != buffers_.aux_state.end(), "the memory ", field.key,
              " was made of values that have been replaced; it is made again when an optimizer "
              "takes the state");
  return static_cast<std::size_t>(held - buffers_.aux_state.begin());
}

torch::Tensor ParamState::aux_state(const std::string& name) const {
  escaped_.set();
  const jit::ResolvedAuxState& field = resolved_aux_state(name);
  const torch::Tensor& now = buffers_.aux_state[aux_index(field)].buffers[buffers_.t & 1];
  const auto sizes = entry_sizes(field.domain, layout_.sizes);
  return now.numel() == c10::multiply_integers(sizes) ? now.view(sizes) : now;
}

void ParamState::set_aux_state(const std::string& name, const torch::Tensor& values) {
  const OwnOperations own;
  torch::Tensor now = aux_state(name);
  if (!is_bound()) {
    for (torch::Tensor& half : buffers_.aux_state[aux_index(resolved_aux_state(name))].buffers)
      half = values.to(now.options(), false, true).contiguous();
    return;
  }
  TORCH_CHECK(values.sizes() == now.sizes(), "values of shape ", values.sizes(), " for the memory ",
              name, ", whose shape is ", now.sizes());
  now.copy_(values);
}

// Also before the optimizer has seen that the parameter lies in another order now.
bool ParamState::has_residual(const torch::Tensor& p) const {
  return is_bound() && owner_.parameter.is_same(p) && buffers_.residual.defined() &&
         p.sizes() == layout_.sizes && p.scalar_type() == layout_.dtype &&
         p.device() == layout_.device;
}

torch::Tensor ParamState::residual() const {
  escaped_.set();
  return buffers_.residual;
}

torch::Tensor ParamState::weights() const {
  TORCH_CHECK(is_bound(),
              "the state is bound to no parameter; ask that of the parameter's optimizer");
  const torch::Tensor& p = owner_.parameter;
  TORCH_CHECK(p.sizes() == layout_.sizes && p.scalar_type() == layout_.dtype &&
                  p.device() == layout_.device,
              "the parameter has become another one since the state was bound to it; take a step");
  return weights_of(buffers_, layout_.strides, p);
}

// What a rule keeps of rows or columns is not that of a parameter which has others.
void ParamState::check_aux_state(const StateBuffers& fresh) const {
  if (buffers_.plan == nullptr || step() == 0) return;
  for (const jit::ResolvedAuxState& field : buffers_.plan->aux_state) {
    const auto same = [&](const auto& other) { return other.key == field.key; };
    const auto held = std::find_if(buffers_.aux_state.begin(), buffers_.aux_state.end(), same);
    const auto made = std::find_if(fresh.aux_state.begin(), fresh.aux_state.end(), same);
    if (field.component != jit::kRuleComponent || held == buffers_.aux_state.end() ||
        made == fresh.aux_state.end())
      continue;
    TORCH_CHECK(held->buffers[0].numel() == made->buffers[0].numel(), "the state keeps ",
                held->buffers[0].numel(), " numbers as \"", field.key,
                "\", where the parameter needs ", made->buffers[0].numel(),
                "; set_aux_state() of a copy of the state, or erase it to start again");
  }
}

void ParamState::take_memory(StateBuffers& fresh) const {
  const int turn = static_cast<int>((buffers_.t ^ fresh.t) & 1);  // where the newest half goes
  for (auto& [key, buffers] : fresh.aux_state) {
    const auto held = std::find_if(buffers_.aux_state.begin(), buffers_.aux_state.end(),
                                   [&key = key](const auto& field) { return field.key == key; });
    if (held == buffers_.aux_state.end()) continue;
    for (int half = 0; half < 2; ++half) {
      const torch::Tensor& from = held->buffers[half ^ turn];
      TORCH_CHECK(from.numel() == 0 || has_data(from), "what is kept as \"", key,
                  "\" has no memory; erase the state to start again");
      if (from.numel() == buffers[half].numel()) buffers[half].copy_(from.reshape({-1}));
    }
  }
}

// The bits beside elements of the parameter that the state came from which have the same value in this one, and zeros
// beside the others: they are not those of another value. Where it is gone there is nothing to compare.
torch::Tensor ParamState::own_extra(const StateBuffers& held, const torch::Tensor& p) const {
  const torch::Tensor source = owner_.source();
  if (!source.defined() || source.is_same(p) || source.sizes() != p.sizes() ||
      source.scalar_type() != p.scalar_type() || (p.numel() > 0 && !has_data(source)))
    return held.residual;
  const auto bits = [&](const torch::Tensor& one) { return one.detach().view(torch::kInt16); };
  const torch::Tensor same = bits(source).to(p.device()) == bits(p);
  return same.all().item<bool>() ? held.residual : extra_where(held, layout_.strides, same);
}

// Bits that a parameter of another dtype or shape lacks are not those that are kept.
void ParamState::take_extra(StateBuffers& fresh, const torch::Tensor& p) const {
  if (!buffers_.residual.defined() || !fresh.residual.defined() || p.sizes() != layout_.sizes ||
      p.scalar_type() != layout_.dtype)
    return;
  StateBuffers old = state_outline(held_plan(fresh));
  old.t = buffers_.t;
  old.residual_is_set = buffers_.residual_is_set;
  fresh.residual_is_set = fresh.t == 0 && (buffers_.t > 0 || buffers_.residual_is_set);
  old.residual = buffers_.residual;
  check_extra(old, p.numel());
  old.residual = old.residual.to(p.device());
  old.residual = own_extra(old, p);
  if (rewrites_parameter(buffers_, *fresh.plan))
    convert_weights(old, layout_.strides, fresh, p);
  else
    fresh.residual = same_layout(p) ? old.residual : reordered_residual(old, layout_.strides, p);
}

}  // namespace jitstep
