// The optimizer's steps. A step that fails before its first launch undoes its changes.
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "jitstep/jit/plan.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/state/weight_conversion.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {

bool shares(const jit::Plan& plan) {
  return !plan.shared_state.empty() ||
         std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [](const auto& r) { return r.is_global && r.active(); });
}

torch::Tensor Optimizer::step(LossClosure closure) {
  impl_->check_training();
  torch::Tensor loss;
  if (closure != nullptr) {
    at::AutoGradMode enable_grad(true);
    loss = closure();
    impl_->check_training();
  }
  const OwnOperations own;
  impl_->gather_inputs(Impl::Operation::step);
  if (!std::exchange(impl_->tuning_is_settled, true))
    impl_->stepper.tune(make_step_tuner(impl_->tunes, impl_->agree));
  impl_->with_rollback([&] {
    impl_->check_cleared();
    impl_->count_steps();
    const StepExtras& extras = impl_->extras;
    impl_->stepper.step({impl_->work, impl_->inactive, impl_->hyper_params},
                        impl_->shared_state.aux_state(), extras, impl_->transform());
  });
  impl_->clear_materialised();
  return loss;
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
  const OwnOperations own;
  gather_inputs(Operation::switch_mode);
  with_rollback([&] {
    std::erase_if(work, [](const StepParameter& one) { return one.state->t == 0; });
    stepper.switch_mode(to, {work, inactive, hyper_params}, shared_state.aux_state());
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
}

// Each device would sum over its own parameters only, so a sum over all parameters would be wrong.
void Optimizer::Impl::check_devices() const {
  const auto other = std::find_if(work.begin(), work.end(), [&](const StepParameter& one) {
    return one.p->device() != work.front().p->device();
  });
  if (other == work.end()) return;
  const auto sums = std::any_of(work.begin(), work.end(), [&](const StepParameter& one) {
    return groups[one.name.group].param_records[one.name.index].shares;
  });
  TORCH_CHECK(!sums, "jitstep: parameters on ", work.front().p->device(), " and ",
              other->p->device(),
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
    for (std::size_t i = 0; i < groups[g].param_records.size(); ++i) {
      const torch::Tensor& p = param_groups()[g].params()[i];
      ParamRecord& param_record = groups[g].param_records[i];
      // Also for inactive parameters, because kernel tables have their addresses.
      check_storage(param_record, p);
      param_record.gradient_checked = false;
      memory.add({&p, {g, i}});
      if (p.grad().defined() && !is_lazy(p.grad())) new_gradients.push_back({g, i});
    }
  memory_checked = true;
}

void Optimizer::Impl::check_new_gradients() {
  check_numbers();
  for (const ParameterName& name : new_gradients) {
    const torch::Tensor& p = param_groups()[name.group].params()[name.index];
    memory.check(p.grad(), {&p, name});
    groups[name.group].param_records[name.index].gradient_checked = true;
  }
}

// The gradient in a form that kernels can read, or null. An unchanged gradient is not checked again.
const torch::Tensor* Optimizer::Impl::gradient_of(const torch::Tensor& p,
                                                  const ParameterName& name) {
  ParamRecord& param_record = groups[name.group].param_records[name.index];
  // p is a leaf, so p.grad() and its warning about non-leaves are not needed.
  const torch::Tensor* grad = &p.unsafeGetTensorImpl()->grad();
  if (param_record.gradient_checked && param_record.gradient.same_storage(*grad)) return grad;
  param_record.gradient_checked = false;
  if (!grad->defined()) return nullptr;
  if (is_lazy(*grad))
    grad = &materialised.emplace_back(jitstep::materialised(*grad));
  else
    new_gradients.push_back(name);
  check_gradient(p, *grad, name);
  if (!param_record.gradient.same_metadata(*grad)) param_record.version = ++versions;
  param_record.gradient = TensorFingerprint(*grad, TensorFingerprint::Access::read);
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
  for (std::size_t i = 0; i < param_groups()[g].params().size(); ++i) gather_param(g, i, operation);
}

void Optimizer::Impl::gather_param(std::size_t g, std::size_t i, Operation operation) {
  const torch::Tensor& p = param_groups()[g].params()[i];
  const Group& group = groups[g];
  ParamRecord& param_record = groups[g].param_records[i];
  if (param_record.repeated) return;
  const bool reads_gradients = operation == Operation::step;
  const bool storage_unchanged = check_storage(param_record, p);
  const torch::Tensor* const grad = reads_gradients ? gradient_of(p, {g, i}) : &p;
  if (grad == nullptr) {
    if (param_record.is_bound(held_state(param_record.key), group.record.revision(), p,
                              storage_unchanged))
      inactive.push_back(param_record.in_step(p, nullptr, {g, i}));
    return;
  }
  const bool bound = with_context(p, {g, i}, [&] { return is_bound(g, i, storage_unchanged); });
  if (!reads_gradients && (param_record.state == nullptr || param_record.state->step() == 0))
    return;
  if (!bound) add_pending(g, i);
  work.push_back(param_record.in_step(p, grad, {g, i}));
}

void Optimizer::Impl::add_pending(std::size_t g, std::size_t i) {
  const torch::Tensor& p = param_groups()[g].params()[i];
  Group& group = groups[g];
  check_tensor(p, {g, i});
  auto plan = with_context(p, {g, i}, [&] { return group.record.plan(p); });
  group.param_records[i].shares = shares(*plan);
  pending.push_back({work.size(), g, i, std::move(plan), false, std::nullopt});
}

bool Optimizer::Impl::is_bound(std::size_t g, std::size_t i, bool storage_unchanged) {
  Group& group = groups[g];
  ParamRecord& param_record = group.param_records[i];
  auto* const held = held_state(param_record.key);
  if (param_record.knows(held)) {
    if (held != nullptr) param_record.state->check_unharmed(), param_record.state->check_step();
    if (param_record.is_bound(held, group.record.revision(), param_groups()[g].params()[i],
                              storage_unchanged))
      return true;
  }
  look_up(param_record, held, group.rule);
  return false;
}

// Sets the record's state to `held`. Throws if that is not state of the rule.
void Optimizer::Impl::look_up(ParamRecord& param_record, torch::optim::OptimizerParamState* held,
                              const std::string& rule) const {
  auto* const state = dynamic_cast<ParamState*>(held);
  TORCH_CHECK(
      held == nullptr || (state != nullptr && state->rule() == rule),
      "jitstep: the state of a parameter was replaced by another optimizer's. Use the state ",
      "class of ", rule, ".");
  param_record.state = state;
  param_record.held = held;
  param_record.type = held == nullptr ? nullptr : &typeid(*held);
  if (held != nullptr) state->check_unharmed(), state->check_step();
}

ParamState& Optimizer::Impl::state_for(const torch::Tensor& p, std::size_t g) {
  auto& held = states()[p.unsafeGetTensorImpl()];
  if (!held) held = make_param_state(groups[g].rule, default_options().catalog_revision());
  return static_cast<ParamState&>(*held);
}

// Ids of all states but `excluded`. A state that was never bound has none.
std::set<int> Optimizer::Impl::ids_except(const std::set<const ParamState*>& excluded) const {
  std::set<int> used;
  for (const auto& [key, held] : states()) {
    const auto* const state = dynamic_cast<const ParamState*>(held.get());
    if (state != nullptr && state->has_id() && !excluded.contains(state)) used.insert(state->id());
  }
  return used;
}

// A state retains its id unless another parameter has the same id, for example after it was moved from another
// optimizer. A new state gets its parameter's id if that is free.
std::vector<int> Optimizer::Impl::ids_of_pending() const {
  std::vector<const ParamRecord*> param_records;
  std::set<const ParamState*> rebound;
  for (const PendingBinding& one : pending) {
    param_records.push_back(&groups[one.group].param_records[one.index]);
    rebound.insert(param_records.back()->state);
  }
  std::set<int> used = ids_except(rebound);
  std::vector<int> assigned;
  for (const ParamRecord* const param_record : param_records) {
    const bool retained = param_record->state != nullptr && param_record->state->has_id() &&
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
  for (const PendingBinding& one : pending) backend_of(work[one.work].p->device()).refuse_capture();
  const std::vector<int> new_ids = ids_of_pending();
  std::size_t next = 0;
  for (PendingBinding& one : pending) {
    Group& group = groups[one.group];
    ParamRecord& param_record = group.param_records[one.index];
    const torch::Tensor& p = *work[one.work].p;
    one.made = param_record.held == nullptr;
    if (!one.made) {
      one.before = param_record.state->snapshot();
      one.parameter = copy_if_rewritten(one.before->buffers_, *one.plan, p);
    }
    ParamState& state = state_for(p, one.group);
    with_context(p, {one.group, one.index}, [&] {
      const int id = new_ids[next++];
      state.bind(p, one.plan, id, group.record.initial(*one.plan, param_record.number));
    });
    param_record.held = param_record.state = &state;
    param_record.type = &typeid(state);
    param_record.plan = one.plan;
    param_record.revision = group.record.revision();
    work[one.work].state = &state.buffers_;
  }
}

// Undoes bind_states() after a failed step, for example without a compiler or out of memory. Removes new states and
// restores the others.
void Optimizer::Impl::restore_states() {
  for (PendingBinding& one : pending) {
    ParamRecord& param_record = groups[one.group].param_records[one.index];
    if (one.made) {
      states().erase(param_record.key);
      param_record.held = param_record.state = nullptr;
    } else if (one.before) {
      *param_record.state = std::move(*one.before);
    }
    put_back(*work[one.work].p, one.parameter);
    param_record.revision = -1;
  }
  pending.clear();
}

// Binds the shared state. Its initial values come from the options of the first group. It restarts if no parameter has
// state.
void Optimizer::Impl::bind_shared_state() {
  if (work.empty() || groups.empty()) return;
  const bool restart =
      pending.size() == states().size() &&
      std::all_of(pending.begin(), pending.end(), [](const auto& one) { return one.made; }) &&
      shared_state.has_stepped();  // last, because it may wait for the device
  if (restart) shared_state.clear();
  shared_state.bind(work.front().p->device(), groups.front().record.initial_shared_state());
}

}  // namespace jitstep
