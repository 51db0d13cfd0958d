// State that exists before the first step, for rules that declare it. torch's Adagrad creates its state so early.
#include <torch/types.h>

#include "jitstep/jit/manifest.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/optimizer_impl.h"

namespace jitstep {

// The early states of parameters that are about to be added. Empty if the rule declares no early state.
std::map<void*, std::unique_ptr<ParamState>> Optimizer::early_states(const ParamGroup& group,
                                                                     const ParameterName& first) {
  std::map<void*, std::unique_ptr<ParamState>> states;
  const auto& options = static_cast<const Options&>(group.options());
  if (!options.manifest().early_state) return states;
  GroupRecord record;
  HyperParams hyper_params;
  with_group_context(first.group,
                     [&] { record.refresh(options, ValidationPhase::step, hyper_params); });
  std::map<void*, int> numbered;  // number in the group, without duplicates
  const auto number_of = [&](const torch::Tensor& p) {
    const int next = static_cast<int>(numbered.size());
    return numbered.try_emplace(p.unsafeGetTensorImpl(), next).first->second;
  };
  if (first.index > 0)
    for (const torch::Tensor& p : param_groups_[first.group].params()) number_of(p);
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    const torch::Tensor& p = group.params()[i];
    const int number = number_of(p);
    auto& state = states[p.unsafeGetTensorImpl()];
    if (state) continue;
    state = make_param_state(options.rule(), default_options().catalog_revision());
    with_context(p, {first.group, first.index + i}, [&] {
      const auto plan = record.plan(p);
      state->bind(p, plan, impl_->id_of(p.unsafeGetTensorImpl()), record.initial(*plan, number));
      state->is_early_ = true;
    });
  }
  return states;
}

// Registers a group after parameters were added, and their early states. An existing state is not replaced.
void Optimizer::take_in(std::size_t group, std::map<void*, std::unique_ptr<ParamState>> states) {
  register_members(group);
  for (auto& [key, state] : states)
    if (auto& held = state_[key]; !held) held = std::move(state);
  if (steps_in_backward()) hook_gradients();
}

}  // namespace jitstep
