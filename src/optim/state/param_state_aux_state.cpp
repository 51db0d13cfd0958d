// Auxiliary state of one parameter and the residual of its weight format.
#include <torch/types.h>

#include <algorithm>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jitstep/jit/plan.h"
#include "jitstep/param_state.h"
#include "optim/state/param_state_data.h"
#include "optim/state/state_operations.h"
#include "optim/state/weight_conversion.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// The parameter's sizes without the reduced dimensions, or those of a matrix.
std::vector<std::int64_t> entry_sizes(const jit::ResolvedAuxState& field,
                                      torch::IntArrayRef sizes) {
  if (field.matrix && sizes.empty()) return {1, 1};
  if (field.matrix) {
    const auto size = [&](int dim) {
      const auto d = static_cast<std::size_t>(dim);
      return d < sizes.size() ? sizes[d] : 0;
    };
    return {size(field.matrix->rows), size(field.matrix->columns)};
  }
  if (sizes.empty()) return {};
  const unsigned reduced = field.domain.reduced(static_cast<int>(sizes.size()));
  std::vector<std::int64_t> remaining;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!(reduced >> d & 1u)) remaining.push_back(sizes[d]);
  return remaining;
}

}  // namespace

const jit::ResolvedAuxState& ParamState::Data::resolved_aux_state(const std::string& name) const {
  TORCH_CHECK(buffers.plan != nullptr, "jitstep: the auxiliary state ", name,
              " does not exist yet: the state is not bound to a parameter. Read it after an ",
              "optimizer has used the state.");
  const std::vector<jit::ResolvedAuxState>& fields = buffers.plan->aux_state;
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) {
    return field.key == name || field.torch_name == name;
  });
  for (const jit::ResolvedAuxState& field : buffers.plan->shared_state)
    TORCH_CHECK(field.key != name && field.torch_name != name, "jitstep: the auxiliary state ",
                name, " of ", rule, " belongs to the whole optimizer. Call optimizer.aux_state(\"",
                name, "\").");
  std::vector<std::string> keys;
  for (const jit::ResolvedAuxState& field : fields) keys.push_back(field.key);
  TORCH_CHECK(found != fields.end(), "jitstep: ", rule, " has no auxiliary state \"", name,
              "\" for this parameter", jit::did_you_mean(name, keys),
              ". It has: ", keys.empty() ? "none" : jit::joined(keys), ".");
  return *found;
}

// A codec's fields are missing after the user has set a copy's slots to values of another shape.
std::size_t ParamState::Data::aux_index(const jit::ResolvedAuxState& field) const {
  const auto stored = std::find_if(buffers.aux_state.begin(), buffers.aux_state.end(),
                                   [&](const auto& one) { return one.key == field.key; });
  TORCH_CHECK(stored != buffers.aux_state.end(), "jitstep: the auxiliary state ", field.key,
              " was dropped when the slot's values were replaced. Read it after an optimizer has ",
              "used the state.");
  return static_cast<std::size_t>(stored - buffers.aux_state.begin());
}

torch::Tensor ParamState::aux_state(const std::string& name) const {
  data_->escaped.set();
  const jit::ResolvedAuxState& field = data_->resolved_aux_state(name);
  const torch::Tensor& now =
      data_->buffers.aux_state[data_->aux_index(field)].buffers[data_->buffers.t & 1];
  const auto sizes = entry_sizes(field, data_->layout.sizes);
  return now.numel() == c10::multiply_integers(sizes) ? now.view(sizes) : now;
}

void ParamState::set_aux_state(const std::string& name, const torch::Tensor& values) {
  const OwnOperations own;
  torch::Tensor now = aux_state(name);
  auto& stored = data_->buffers.aux_state[data_->aux_index(data_->resolved_aux_state(name))];
  if (!data_->is_bound() && stored.is_matrix()) {
    const torch::Tensor matrix = values.to(now.options(), false, true).contiguous();
    stored.buffers = {matrix, matrix};
    return;
  }
  if (!data_->is_bound()) {
    for (torch::Tensor& half : stored.buffers)
      half = values.to(now.options(), false, true).contiguous();
    return;
  }
  TORCH_CHECK(values.sizes() == now.sizes(), "jitstep: wrong shape ", values.sizes(),
              " for the auxiliary state ", name, ". Give values of shape ", now.sizes(), ".");
  overwrite(now, values);
}

// Does not compare strides: the parameter may have another storage order that the optimizer has not seen yet.
bool ParamState::has_residual(const torch::Tensor& p) const {
  return data_->is_bound() && data_->owner.parameter.is_same(p) &&
         data_->buffers.residual.defined() && p.sizes() == data_->layout.sizes &&
         p.scalar_type() == data_->layout.dtype && p.device() == data_->layout.device;
}

torch::Tensor ParamState::residual() const {
  data_->escaped.set();
  return data_->buffers.residual;
}

torch::Tensor ParamState::weights() const {
  TORCH_CHECK(data_->is_bound(),
              "jitstep: the state has no weights: it is not bound to a parameter. Read them from ",
              "the state in the parameter's optimizer.");
  const torch::Tensor& p = data_->owner.parameter;
  TORCH_CHECK(p.sizes() == data_->layout.sizes && p.scalar_type() == data_->layout.dtype &&
                  p.device() == data_->layout.device,
              "jitstep: the weights are not available: the parameter's shape, dtype or device ",
              "changed since the last step. Call step() first.");
  return weights_of(data_->buffers, data_->layout.strides, p);
}

// A rule's auxiliary state per row or column does not fit a parameter with another number of rows or columns.
void ParamState::Data::check_aux_state(const StateBuffers& fresh) const {
  if (buffers.plan == nullptr || step() == 0) return;
  for (const jit::ResolvedAuxState& field : buffers.plan->aux_state) {
    const auto same = [&](const auto& other) { return other.key == field.key; };
    const auto stored = std::find_if(buffers.aux_state.begin(), buffers.aux_state.end(), same);
    const auto target = std::find_if(fresh.aux_state.begin(), fresh.aux_state.end(), same);
    if (field.component != jit::kRuleComponent || stored == buffers.aux_state.end() ||
        target == fresh.aux_state.end())
      continue;
    // A matrix may come or go with the option for the largest side.
    if (field.matrix && (stored->buffers[0].numel() == 0 || target->buffers[0].numel() == 0))
      continue;
    TORCH_CHECK(stored->buffers[0].numel() == target->buffers[0].numel(), "jitstep: the state has ",
                stored->buffers[0].numel(), " values of the auxiliary state \"", field.key,
                "\", but the parameter needs ", target->buffers[0].numel(),
                ". Call set_aux_state() of a copy of the state, or erase it to start again.");
  }
}

void ParamState::Data::copy_aux_state(StateBuffers& fresh) const {
  // buffers[t & 1] is the newest. If `fresh` has another parity of t, the two buffers change places.
  const int parity = static_cast<int>((buffers.t ^ fresh.t) & 1);
  for (auto& [key, target] : fresh.aux_state) {
    const auto stored = std::find_if(buffers.aux_state.begin(), buffers.aux_state.end(),
                                     [&key = key](const auto& field) { return field.key == key; });
    if (stored == buffers.aux_state.end()) continue;
    for (int half = 0; half < 2; ++half) {
      const torch::Tensor& from = stored->buffers[half ^ parity];
      TORCH_CHECK(from.numel() == 0 || has_data(from),
                  "jitstep: the storage of the auxiliary state \"", key,
                  "\" was freed. Erase the state to start again.");
      if (from.numel() == target[half].numel()) target[half].copy_(from.reshape({-1}));
    }
  }
}

// The residual for a state that came from another parameter. An element's residual is only valid if the element has the
// same bits in both parameters. Otherwise it becomes zero. If the other parameter no longer exists, there is nothing to
// compare with, and the residual is used unchanged.
torch::Tensor ParamState::Data::valid_residual(const StateBuffers& stored,
                                               const torch::Tensor& p) const {
  const torch::Tensor source = owner.source();
  if (!source.defined() || source.is_same(p) || source.sizes() != p.sizes() ||
      source.scalar_type() != p.scalar_type() || (p.numel() > 0 && !has_data(source)))
    return stored.residual;
  // 16-bit dtypes are the only ones with a residual.
  const auto bits = [&](const torch::Tensor& one) { return one.detach().view(torch::kInt16); };
  const torch::Tensor same = bits(source).to(p.device()) == bits(p);
  return same.all().item<bool>() ? stored.residual : masked_residual(stored, layout.strides, same);
}

// The residual of a parameter of another dtype or shape has no meaning for this one.
void ParamState::Data::convert_residual(StateBuffers& fresh, const torch::Tensor& p) const {
  if (!buffers.residual.defined() || !fresh.residual.defined() || p.sizes() != layout.sizes ||
      p.scalar_type() != layout.dtype)
    return;
  StateBuffers old = state_outline(stored_plan(fresh));
  old.t = buffers.t;
  old.residual_is_set = buffers.residual_is_set;
  fresh.residual_is_set = fresh.t == 0 && (buffers.t > 0 || buffers.residual_is_set);
  old.residual = buffers.residual;
  check_residual(old, p.numel());
  old.residual = old.residual.to(p.device());
  old.residual = valid_residual(old, p);
  if (rewrites_parameter(buffers, *fresh.plan))
    convert_weights(old, layout.strides, fresh, p);
  else
    fresh.residual = same_layout(p) ? old.residual : reordered_residual(old, layout.strides, p);
}

}  // namespace jitstep
