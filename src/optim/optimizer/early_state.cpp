// State that exists before the first step, for rules that declare it. torch's Adagrad creates its state so early.
#include <torch/types.h>

#include "jitstep/jit/manifest.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/offload.h"

namespace jitstep {

// The early states of parameters that are about to be added. Empty if the rule declares no early state.
std::map<void*, std::unique_ptr<ParamState>> Optimizer::Impl::early_states(
    const ParamGroup& group, const ParameterName& first) {
  std::map<void*, std::unique_ptr<ParamState>> early;
  const auto& options = static_cast<const Options&>(group.options());
  if (!options.manifest().early_state) return early;
  const auto record =
      with_group_context(first.group, [&] { return GroupRecord(options, ValidationPhase::step); });
  std::map<void*, int> numbered;  // number in the group, without duplicates
  const auto number_of = [&](const torch::Tensor& p) {
    const int next = static_cast<int>(numbered.size());
    return numbered.try_emplace(key_of(p), next).first->second;
  };
  if (first.index > 0)
    for (const torch::Tensor& p : param_groups()[first.group].params()) number_of(p);
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    const torch::Tensor& p = group.params()[i];
    const int number = number_of(p);
    auto& state = early[key_of(p)];
    if (state) continue;
    state = make_param_state(options.rule(), default_options().catalog());
    with_context(p, {first.group, first.index + i}, [&] {
      const auto plan = record.plan(p);
      state->data().bind(p, plan, id_of(key_of(p)), record.initial(*plan, number));
      state->data().is_early = true;
    });
  }
  return early;
}

// Registers a group after parameters were added, and their early states. An existing state is not replaced.
void Optimizer::Impl::take_in(std::size_t group,
                              std::map<void*, std::unique_ptr<ParamState>> early) {
  register_members(group);
  for (auto& [key, state] : early)
    if (auto& entry = states()[key]; !entry) entry = std::move(state);
  if (hooks) hook_gradients();
  if (offload) offload->update_hooks();
}

}  // namespace jitstep
