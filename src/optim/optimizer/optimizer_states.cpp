// The states of an optimizer's parameters: found, created and bound before a step, and restored after a failed one.
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <set>
#include <utility>

#include "optim/optimizer/optimizer_impl.h"
#include "optim/state/weight_conversion.h"
#include "optim/tensor/backends.h"

namespace jitstep {

// Sets the record's state to that of torch's table. Throws if that is not state of the rule, or invalid.
void Optimizer::Impl::look_up(ParamRecord& record) const {
  auto* const entry = find_state(record);
  auto* const state = dynamic_cast<ParamState*>(entry);
  const std::string& of_group = groups[record.name.group].rule;
  with_context(*record.p, record.name, [&] {
    TORCH_CHECK(
        entry == nullptr || (state != nullptr && state->rule() == of_group),
        "jitstep: the state of a parameter was replaced by another optimizer's. Use the state ",
        "class of ", of_group, ".");
    record.set_state(state);
    if (state != nullptr) check_intact(*state), state->data().check_step();
  });
}

// Found by the parameter's key: the record's tensor may be this rank's part.
ParamState& Optimizer::Impl::state_for(const ParamRecord& record) {
  auto& entry = states()[record.key];
  if (!entry) entry = make_param_state(groups[record.name.group].rule, default_options().catalog());
  return static_cast<ParamState&>(*entry);
}

// Ids of all states but `excluded`. A state that was never bound has none.
std::set<int> Optimizer::Impl::ids_except(const std::set<const ParamState*>& excluded) const {
  std::set<int> used;
  for (const auto& [key, entry] : states()) {
    const auto* const state = dynamic_cast<const ParamState*>(entry.get());
    if (state != nullptr && state->data().has_id() && !excluded.contains(state))
      used.insert(state->id());
  }
  return used;
}

// A state retains its id unless another parameter has the same id, for example after it was moved from another
// optimizer. A new state gets its parameter's id if that is free.
std::vector<int> Optimizer::Impl::ids_of_pending() const {
  std::vector<const ParamRecord*> param_records;
  std::set<const ParamState*> rebound;
  for (const PendingBinding& one : pending) {
    param_records.push_back(one.record);
    rebound.insert(one.record->state);
  }
  std::set<int> used = ids_except(rebound);
  std::vector<int> assigned;
  for (const ParamRecord* const param_record : param_records) {
    const bool retained = param_record->state != nullptr && param_record->state->data().has_id() &&
                          used.insert(param_record->state->id()).second;
    assigned.push_back(retained ? param_record->state->id() : -1);
  }
  const int unused = static_cast<int>(ids.size());
  for (std::size_t i = 0; i < assigned.size(); ++i) {
    if (assigned[i] >= 0) continue;
    const bool free = used.insert(param_records[i]->id).second;
    assigned[i] = free ? param_records[i]->id : std::max(*used.rbegin() + 1, unused);
    used.insert(assigned[i]);
  }
  return assigned;
}

// Creates the state of parameters that get their first gradient. Binds states again that were replaced or moved, or
// whose formats changed.
void Optimizer::Impl::bind_states() {
  if (pending.empty()) return;
  // Must be first, because a CUDA graph capture would record the creation of state.
  for (const PendingBinding& one : pending)
    backend_of(one.record->p->device()).check_not_capturing();
  const std::vector<int> new_ids = ids_of_pending();
  std::size_t next = 0;
  for (PendingBinding& one : pending) {
    ParamRecord& record = *one.record;
    const GroupRecord& group = groups[record.name.group].record;
    const torch::Tensor& p = *record.p;
    one.is_new = record.state == nullptr;
    if (!one.is_new) {
      one.before.emplace(record.state->data().snapshot());
      one.parameter = copy_if_rewritten(one.before->buffers, *one.plan, p);
    }
    ParamState& state = state_for(record);
    with_context(p, record.name, [&] {
      if (sharding) reduce_to_part(record.name.group, record.name.index, state.data());
      state.data().bind(p, one.plan, new_ids[next++],
                        group.initial(*one.plan, record.index_in_group));
    });
    record.set_state(&state);
    record.buffers_revision = state.data().buffers.revision;
    record.group_revision = group.revision();
    record.version = ++versions;
  }
}

// Undoes bind_states() after a failed step, for example without a compiler or out of memory. Removes new states and
// restores the others.
void Optimizer::Impl::restore_states() {
  for (PendingBinding& one : pending) {
    ParamRecord& record = *one.record;
    if (one.is_new) {
      states().erase(record.key);
      record.set_state(nullptr);
    } else if (one.before) {
      record.state->data() = std::move(*one.before);
    }
    put_back(*record.p, one.parameter);
    record.group_revision = -1;
  }
  pending.clear();
}

// Binds the shared state. Its initial values come from the options of the first group. It restarts if no parameter has
// state.
void Optimizer::Impl::bind_shared_state() {
  if (active.empty() || groups.empty()) return;
  const bool restart =
      pending.size() == states().size() &&
      std::all_of(pending.begin(), pending.end(), [](const auto& one) { return one.is_new; }) &&
      shared_state.has_stepped();  // last, because it may wait for the device
  if (restart) shared_state.clear();
  shared_state.bind(active.front()->p->device(), groups.front().record.initial_shared_state());
}

// Binds a state that exists already to p in the group's current formats, outside of a step.
void Optimizer::Impl::bind_stored_state(const ParamRecord& record, const torch::Tensor& p) {
  auto* const state = dynamic_cast<ParamState*>(find_state(record.key));
  if (state == nullptr) return;
  const GroupRecord& group = groups[record.name.group].record;
  with_context(p, record.name, [&] {
    const auto plan = group.plan(p);
    ParamState::Data& data = state->data();
    data.bind(p, plan, data.has_id() ? data.buffers.id : record.id,
              group.initial(*plan, record.index_in_group));
  });
}

}  // namespace jitstep
