// The optimizer's steps. A step that fails before its first launch undoes its changes.
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/offload.h"
#include "optim/optimizer/reduction.h"
#include "optim/state/weight_conversion.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {

torch::Tensor Optimizer::step(LossClosure closure) {
  torch::Tensor loss;
  impl_->together(RankCall::step, [&] {
    impl_->check_training();
    if (closure != nullptr) {
      at::AutoGradMode enable_grad(true);
      loss = closure();
      impl_->check_training();
    }
    impl_->step_all();
  });
  return loss;
}

void Optimizer::Impl::step_all() {
  const OwnOperations own;
  if (reduction) reduction->reduce();
  gather_inputs(Operation::step);
  if (!std::exchange(tuning_is_settled, true))
    stepper.tune(jit::make_step_tuner(tunes, agree_on_tuning));
  with_rollback([&] {
    check_cleared();
    count_steps();
    stepper.step({active, inactive, hyper_params}, shared_state.aux_state(), extras_of_step(),
                 transform());
  });
  if (reduction) reduction->end_step();
  return_parameters();
  end_offloaded_step();
  share_parameters();
  clear_materialized();
  forget_inputs();
}

void Optimizer::Impl::check_training() const {
  TORCH_CHECK(mode == jit::Mode::train, "jitstep: step() of ", rule(),
              " in evaluation mode: the parameters ",
              "hold the evaluation point, not the training point. Call train() first.");
}

void Optimizer::eval() { impl_->switch_mode(jit::Mode::eval); }

void Optimizer::train(bool on) { impl_->switch_mode(on ? jit::Mode::train : jit::Mode::eval); }

bool Optimizer::is_training() const { return impl_->mode == jit::Mode::train; }

void Optimizer::Impl::switch_mode(jit::Mode to) {
  if (!default_options().manifest().modes || mode == to) return;
  together(to == jit::Mode::eval ? RankCall::eval : RankCall::train, [&] {
    const OwnOperations own;
    gather_inputs(Operation::switch_mode);
    with_rollback([&] {
      std::erase_if(active, [](const StepParam* param) { return param->buffers->t == 0; });
      stepper.switch_mode(to, {active, inactive, hyper_params}, shared_state.aux_state());
    });
    return_parameters();
    share_parameters();
  });
  mode = to;
}

// Binds the states and calls `launch`. Restores the states if either throws.
void Optimizer::Impl::with_rollback(const std::function<void()>& launch) {
  try {
    bind_states();
    bind_shared_state();
    launch();
  } catch (...) {
    restore_states();
    throw;
  }
  pending.clear();
}

// Finds the parameters with gradients (for a step), or those that have taken a step (for a switch of mode). Checks all
// before any is changed.
void Optimizer::Impl::gather_inputs(Operation operation) {
  if (!groups_unchanged()) sync_groups();
  start_gathering();
  for (std::size_t g = 0; g < groups.size(); ++g) gather_group(g, operation);
  if (operation == Operation::step) check_devices(), check_extras();
  if (!memory_checked || !pending.empty()) check_memory();
  if (operation == Operation::step) check_new_gradients();
  use_parts();
  use_host_copies();
}

// Each device would sum over its own parameters only, so a sum over all parameters would be wrong.
void Optimizer::Impl::check_devices() const {
  if (!several_devices || offload) return;  // offloaded parameters are stepped together
  const auto device = active.front()->p->device();
  const auto other = std::find_if(active.begin(), active.end(), [&](const StepParam* param) {
    return param->p->device() != device;
  });
  const bool sums = std::any_of(active.begin(), active.end(), [&](const StepParam* param) {
    return static_cast<const ParamRecord*>(param)->shares;
  });
  TORCH_CHECK(!sums, "jitstep: parameters on ", device, " and ", (*other)->p->device(),
              " do not work with max_grad_norm or another sum over all parameters: each device "
              "would sum its own only. Call torch::nn::utils::clip_grad_norm_ instead, or use one "
              "optimizer per device.");
}

// Checks all parameters for shared memory, and schedules a check of every gradient.
void Optimizer::Impl::check_memory() {
  memory_checked = false;
  check_distinct();
  memory.clear();
  new_gradients.clear();
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (ParamRecord& record : groups[g].param_records) {
      record.p = &param_groups()[g].params()[record.name.index];
      // Also for inactive parameters, because kernel tables have their addresses.
      check_storage(record);
      record.gradient_checked = false;
      memory.add({record.p, record.name});
      if (record.p->grad().defined() && !is_lazy(record.p->grad()))
        new_gradients.push_back(&record);
    }
  memory_checked = true;
}

void Optimizer::Impl::check_new_gradients() {
  check_numbers();
  for (ParamRecord* const record : new_gradients) {
    memory.check(record->p->grad(), {record->p, record->name});
    record->gradient_checked = true;
  }
}

// The gradient in a form that kernels can read, or null. An unchanged gradient is not checked again.
const torch::Tensor* Optimizer::Impl::gradient_of(ParamRecord& record) {
  if (reduction) return reduced_gradient(record);
  // p is a leaf, so p.grad() and its warning about non-leaves are not needed.
  const torch::Tensor* grad = &record.p->unsafeGetTensorImpl()->grad();
  if (record.gradient_checked && record.gradient.same_storage(*grad)) return grad;
  record.gradient_checked = false;
  if (!grad->defined()) return offload ? offload->gradient(record) : nullptr;
  if (is_lazy(*grad))
    grad = &materialized.emplace_back(jitstep::materialized(*grad));
  else
    new_gradients.push_back(&record);
  check_gradient(*record.p, *grad, record.name);
  if (!record.gradient.same_metadata(*grad)) record.version = ++versions;
  record.gradient = TensorFingerprint(*grad, TensorFingerprint::Access::read);
  record.g = grad->const_data_ptr();
  return grad;
}

void Optimizer::Impl::refresh_options(std::size_t g) {
  GroupRecord& record = groups[g].record;
  with_group_context(
      g, [&] { record.refresh(group_options(g), ValidationPhase::step, hyper_params[g]); });
  point_to_lr(g);
}

void Optimizer::Impl::gather_group(std::size_t g, Operation operation) {
  refresh_options(g);
  const auto& params = param_groups()[g].params();
  auto& records = groups[g].param_records;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (!records[i].repeated) gather_param(records[i], params[i], operation);
}

void Optimizer::Impl::gather_param(ParamRecord& record, const torch::Tensor& p,
                                   Operation operation) {
  record.p = &p;
  const bool storage_unchanged = check_storage(record);
  if (sharding) find_part(record, p);
  record.grad = operation == Operation::step ? gradient_of(record) : &p;
  if (record.grad == nullptr) {
    if (record.knows(held_state(record.key)) &&
        record.is_bound(groups[record.name.group].record.revision(), storage_unchanged))
      inactive.push_back(&record);
    return;
  }
  const bool bound = find_state(record, storage_unchanged);
  if (operation == Operation::switch_mode && (record.state == nullptr || record.state->step() == 0))
    return;
  if (!bound) add_pending(record);
  record.inputs = given_inputs.empty() ? nullptr : inputs_of(record);
  active.push_back(&record);
  several_devices |= p.device() != active.front()->p->device();
}

void Optimizer::Impl::add_pending(ParamRecord& record) {
  check_tensor(*record.p, record.name);
  auto plan = with_context(*record.p, record.name,
                           [&] { return groups[record.name.group].record.plan(*record.p); });
  record.shares = jit::needs_all_tensors(*plan);
  check_part(record, *plan);
  pending.push_back({&record, std::move(plan), false, std::nullopt});
}

// Updates the record's state. True if it is bound, false if it must be created or bound again.
bool Optimizer::Impl::find_state(ParamRecord& record, bool storage_unchanged) const {
  auto* const held = held_state(record.key);
  if (record.knows(held) &&
      record.is_bound(groups[record.name.group].record.revision(), storage_unchanged))
    return true;
  look_up(record, held);
  return false;
}

// Sets the record's state to `held`. Throws if that is not state of the rule, or invalid.
void Optimizer::Impl::look_up(ParamRecord& record, torch::optim::OptimizerParamState* held) const {
  auto* const state = dynamic_cast<ParamState*>(held);
  const std::string& of_group = groups[record.name.group].rule;
  with_context(*record.p, record.name, [&] {
    TORCH_CHECK(
        held == nullptr || (state != nullptr && state->rule() == of_group),
        "jitstep: the state of a parameter was replaced by another optimizer's. Use the state ",
        "class of ", of_group, ".");
    record.set_state(state);
    if (state != nullptr) check_unharmed(*state), state->data().check_step();
  });
}

// Found by the parameter's key: the record's tensor may be this rank's part.
ParamState& Optimizer::Impl::state_for(const ParamRecord& record) {
  auto& held = states()[record.key];
  if (!held) held = make_param_state(groups[record.name.group].rule, default_options().catalog());
  return static_cast<ParamState&>(*held);
}

// Ids of all states but `excluded`. A state that was never bound has none.
std::set<int> Optimizer::Impl::ids_except(const std::set<const ParamState*>& excluded) const {
  std::set<int> used;
  for (const auto& [key, held] : states()) {
    const auto* const state = dynamic_cast<const ParamState*>(held.get());
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
  for (const PendingBinding& one : pending) backend_of(one.record->p->device()).refuse_capture();
  const std::vector<int> new_ids = ids_of_pending();
  std::size_t next = 0;
  for (PendingBinding& one : pending) {
    ParamRecord& record = *one.record;
    const GroupRecord& group = groups[record.name.group].record;
    const torch::Tensor& p = *record.p;
    one.made = record.held == nullptr;
    if (!one.made) {
      one.before.emplace(record.state->data().snapshot());
      one.parameter = copy_if_rewritten(one.before->buffers, *one.plan, p);
    }
    ParamState& state = state_for(record);
    with_context(p, record.name, [&] {
      if (sharding) keep_part(record.name.group, record.name.index, state.data());
      state.data().bind(p, one.plan, new_ids[next++], group.initial(*one.plan, record.number));
    });
    record.set_state(&state);
    record.binding = state.data().buffers.revision;
    record.revision = group.revision();
  }
}

// Undoes bind_states() after a failed step, for example without a compiler or out of memory. Removes new states and
// restores the others.
void Optimizer::Impl::restore_states() {
  for (PendingBinding& one : pending) {
    ParamRecord& record = *one.record;
    if (one.made) {
      states().erase(record.key);
      record.set_state(nullptr);
    } else if (one.before) {
      record.state->data() = std::move(*one.before);
    }
    put_back(*record.p, one.parameter);
    record.revision = -1;
  }
  pending.clear();
}

// Binds the shared state. Its initial values come from the options of the first group. It restarts if no parameter has
// state.
void Optimizer::Impl::bind_shared_state() {
  if (active.empty() || groups.empty()) return;
  const bool restart =
      pending.size() == states().size() &&
      std::all_of(pending.begin(), pending.end(), [](const auto& one) { return one.made; }) &&
      shared_state.has_stepped();  // last, because it may wait for the device
  if (restart) shared_state.clear();
  shared_state.bind(active.front()->p->device(), groups.front().record.initial_shared_state());
}

}  // namespace jitstep
