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
namespace {

using States = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

torch::optim::OptimizerParamState* held_in(const States& states, void* key) {
  const auto found = states.find(key);
  return found == states.end() ? nullptr : found->second.get();
}

// The ids of all states except `some`. A state that was never bound has none.
std::set<int> ids_but_of(const std::set<const ParamState*>& some, const States& states) {
  std::set<int> ids;
  for (const auto& [key, held] : states) {
    const auto* const state = dynamic_cast<const ParamState*>(held.get());
    if (state != nullptr && state->has_id() && !some.contains(state)) ids.insert(state->id());
  }
  return ids;
}

}  // namespace

bool shares(const jit::Plan& plan) {
  return !plan.shared_state.empty() ||
         std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [](const auto& r) { return r.is_global && r.active(); });
}

torch::Tensor Optimizer::step(LossClosure closure) {
  check_training();
  torch::Tensor loss;
  if (closure != nullptr) {
    at::AutoGradMode enable_grad(true);
    loss = closure();
    check_training();
  }
  const OwnOperations own;
  gather_inputs(Operation::step);
  if (!std::exchange(impl_->tuning_is_settled, true))
    impl_->stepper.tune(make_step_tuner(impl_->tunes, impl_->agree));
  with_rollback([&] {
    check_cleared();
    count_steps();
    const StepExtras& extras = impl_->extras;
    impl_->stepper.step({impl_->work, impl_->inactive, impl_->hyper_params},
                        impl_->shared_state.aux_state(), extras, impl_->transform());
  });
  clear_materialised();
  return loss;
}

void Optimizer::check_training() const {
  TORCH_CHECK(is_training(), "jitstep: step() of ", rule(), " in evaluation mode: the parameters ",
              "hold the evaluation point, not the training point. Call train() first.");
}

void Optimizer::eval() { switch_mode(jit::Mode::eval); }

void Optimizer::train(bool on) { switch_mode(on ? jit::Mode::train : jit::Mode::eval); }

bool Optimizer::is_training() const { return impl_->mode == jit::Mode::train; }

void Optimizer::switch_mode(jit::Mode to) {
  if (!default_options().manifest().modes || impl_->mode == to) return;
  const OwnOperations own;
  gather_inputs(Operation::switch_mode);
  with_rollback([&] {
    auto& work = impl_->work;
    std::erase_if(work, [](const StepParameter& one) { return one.state->t == 0; });
    impl_->stepper.switch_mode(to, {work, impl_->inactive, impl_->hyper_params},
                               impl_->shared_state.aux_state());
  });
  impl_->mode = to;
}

// Binds the states and calls `launch`. Restores the states if either throws.
void Optimizer::with_rollback(const std::function<void()>& launch) {
  try {
    bind_states();
    bind_shared_state();
    launch();
  } catch (...) {
    restore_states();
    throw;
  }
  impl_->pending.clear();
}

// Finds the parameters with gradients (for a step), or those that have taken a step (for a switch of mode). Checks all
// before any is changed.
void Optimizer::gather_inputs(Operation operation) {
  if (!groups_unchanged()) sync_groups();
  impl_->start_gathering();
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) gather_group(g, operation);
  if (operation == Operation::step) check_devices(), check_extras();
  if (!impl_->memory_checked || !impl_->pending.empty()) check_memory();
  if (operation == Operation::step) check_new_gradients();
}

// Each device would sum over its own parameters only, so a sum over all parameters would be wrong.
void Optimizer::check_devices() const {
  const auto& work = impl_->work;
  const auto other = std::find_if(work.begin(), work.end(), [&](const StepParameter& one) {
    return one.p->device() != work.front().p->device();
  });
  if (other == work.end()) return;
  const auto sums = std::any_of(work.begin(), work.end(), [&](const StepParameter& one) {
    return impl_->groups[one.name.group].param_records[one.name.index].shares;
  });
  TORCH_CHECK(!sums, "jitstep: parameters on ", work.front().p->device(), " and ",
              other->p->device(),
              " do not work with max_grad_norm or another sum over all parameters: each device "
              "would sum its own only. Call torch::nn::utils::clip_grad_norm_ instead, or use one "
              "optimizer per device.");
}

// Checks all parameters for shared memory, and schedules a check of every gradient.
void Optimizer::check_memory() {
  impl_->memory_checked = false;
  check_distinct();
  impl_->memory.clear();
  impl_->new_gradients.clear();
  for (std::size_t g = 0; g < impl_->groups.size(); ++g)
    for (std::size_t i = 0; i < impl_->groups[g].param_records.size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      ParamRecord& param_record = impl_->groups[g].param_records[i];
      // Also for inactive parameters, because kernel tables have their addresses.
      impl_->storage_unchanged(param_record, p);
      param_record.gradient_checked = false;
      impl_->memory.add({&p, {g, i}});
      if (p.grad().defined() && !is_lazy(p.grad())) impl_->new_gradients.push_back({g, i});
    }
  impl_->memory_checked = true;
}

void Optimizer::check_new_gradients() {
  check_numbers();
  for (const ParameterName& name : impl_->new_gradients) {
    const torch::Tensor& p = param_groups_[name.group].params()[name.index];
    impl_->memory.check(p.grad(), {&p, name});
    impl_->groups[name.group].param_records[name.index].gradient_checked = true;
  }
}

// The gradient in a form that kernels can read, or null. An unchanged gradient is not checked again.
const torch::Tensor* Optimizer::gradient_of(const torch::Tensor& p, const ParameterName& name) {
  ParamRecord& param_record = impl_->groups[name.group].param_records[name.index];
  // p is a leaf, so p.grad() and its warning about non-leaves are not needed.
  const torch::Tensor* grad = &p.unsafeGetTensorImpl()->grad();
  if (param_record.gradient_checked && param_record.gradient.same_storage(*grad)) return grad;
  param_record.gradient_checked = false;
  if (!grad->defined()) return nullptr;
  if (is_lazy(*grad))
    grad = &impl_->materialised.emplace_back(materialised(*grad));
  else
    impl_->new_gradients.push_back(name);
  check_gradient(p, *grad, name);
  if (!param_record.gradient.same_metadata(*grad)) param_record.version = ++impl_->versions;
  param_record.gradient = TensorFingerprint(*grad, TensorFingerprint::Access::read);
  return grad;
}

void Optimizer::refresh_options(std::size_t g) {
  GroupRecord& record = impl_->groups[g].record;
  with_group_context(
      g, [&] { record.refresh(group_options(g), ValidationPhase::step, impl_->hyper_params[g]); });
  point_to_lr(g);
}

void Optimizer::gather_group(std::size_t g, Operation operation) {
  refresh_options(g);
  for (std::size_t i = 0; i < param_groups_[g].params().size(); ++i) gather_param(g, i, operation);
}

void Optimizer::gather_param(std::size_t g, std::size_t i, Operation operation) {
  const torch::Tensor& p = param_groups_[g].params()[i];
  const Impl::Group& group = impl_->groups[g];
  ParamRecord& param_record = impl_->groups[g].param_records[i];
  if (param_record.repeated) return;
  const bool stepping = operation == Operation::step;
  const bool storage_unchanged = impl_->storage_unchanged(param_record, p);
  const torch::Tensor* const grad = stepping ? gradient_of(p, {g, i}) : &p;
  if (grad == nullptr) {
    if (param_record.is_bound(held_in(state_, param_record.key), group.record.revision(), p,
                              storage_unchanged))
      impl_->inactive.push_back(param_record.in_step(p, nullptr, {g, i}));
    return;
  }
  const bool bound = with_context(p, {g, i}, [&] { return is_bound(g, i, storage_unchanged); });
  if (!stepping && (param_record.state == nullptr || param_record.state->step() == 0)) return;
  if (!bound) add_pending(g, i);
  impl_->work.push_back(param_record.in_step(p, grad, {g, i}));
}

void Optimizer::add_pending(std::size_t g, std::size_t i) {
  const torch::Tensor& p = param_groups_[g].params()[i];
  Impl::Group& group = impl_->groups[g];
  check_tensor(p, {g, i});
  auto plan = with_context(p, {g, i}, [&] { return group.record.plan(p); });
  group.param_records[i].shares = shares(*plan);
  impl_->pending.push_back({impl_->work.size(), g, i, std::move(plan), false, std::nullopt});
}

bool Optimizer::is_bound(std::size_t g, std::size_t i, bool storage_unchanged) {
  Impl::Group& group = impl_->groups[g];
  ParamRecord& param_record = group.param_records[i];
  auto* const held = held_in(state_, param_record.key);
  if (param_record.knows(held)) {
    if (held != nullptr) param_record.state->check_unharmed(), param_record.state->check_step();
    if (param_record.is_bound(held, group.record.revision(), param_groups_[g].params()[i],
                              storage_unchanged))
      return true;
  }
  look_up(param_record, held, group.rule);
  return false;
}

// Sets the record's state to `held`. Throws if that is not state of the rule.
void Optimizer::look_up(ParamRecord& param_record, torch::optim::OptimizerParamState* held,
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

ParamState& Optimizer::state_for(const torch::Tensor& p, std::size_t g) {
  auto& held = state_[p.unsafeGetTensorImpl()];
  if (!held) held = make_param_state(impl_->groups[g].rule, default_options().catalog_revision());
  return static_cast<ParamState&>(*held);
}

// A state retains its id unless another parameter has the same id, for example after it was moved from another
// optimizer. A new state gets its parameter's id if that is free.
std::vector<int> Optimizer::ids_of_pending() const {
  std::vector<const ParamRecord*> param_records;
  std::set<const ParamState*> states;
  for (const auto& pending : impl_->pending) {
    param_records.push_back(&impl_->groups[pending.group].param_records[pending.index]);
    states.insert(param_records.back()->state);
  }
  std::set<int> used = ids_but_of(states, state_);
  std::vector<int> ids;
  for (const ParamRecord* const param_record : param_records) {
    const bool retained = param_record->state != nullptr && param_record->state->has_id() &&
                          used.insert(param_record->state->id()).second;
    ids.push_back(retained ? param_record->state->id() : -1);
  }
  const int unused = static_cast<int>(impl_->ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0) continue;
    const bool free = used.insert(param_records[i]->id).second;
    ids[i] = free ? param_records[i]->id : std::max(*used.rbegin() + 1, unused);
    used.insert(ids[i]);
  }
  return ids;
}

// Creates the state of parameters that get their first gradient. Binds states again that were replaced or moved, or
// whose formats changed.
void Optimizer::bind_states() {
  if (impl_->pending.empty()) return;
  // Must be first, because a CUDA graph capture would record the creation of state.
  for (const Impl::PendingBinding& pending : impl_->pending)
    backend_of(impl_->work[pending.work].p->device()).refuse_capture();
  const std::vector<int> ids = ids_of_pending();
  std::size_t next = 0;
  for (Impl::PendingBinding& pending : impl_->pending) {
    Impl::Group& group = impl_->groups[pending.group];
    ParamRecord& param_record = group.param_records[pending.index];
    const torch::Tensor& p = *impl_->work[pending.work].p;
    pending.made = param_record.held == nullptr;
    if (!pending.made) {
      pending.before = param_record.state->snapshot();
      pending.parameter = copy_if_rewritten(pending.before->buffers_, *pending.plan, p);
    }
    ParamState& state = state_for(p, pending.group);
    with_context(p, {pending.group, pending.index}, [&] {
      const int id = ids[next++];
      state.bind(p, pending.plan, id, group.record.initial(*pending.plan, param_record.number));
    });
    param_record.held = param_record.state = &state;
    param_record.type = &typeid(state);
    param_record.plan = pending.plan;
    param_record.revision = group.record.revision();
    impl_->work[pending.work].state = &state.buffers_;
  }
}

// Undoes bind_states() after a failed step, for example without a compiler or out of memory. Removes new states and
// restores the others.
void Optimizer::restore_states() {
  for (Impl::PendingBinding& pending : impl_->pending) {
    ParamRecord& param_record = impl_->groups[pending.group].param_records[pending.index];
    if (pending.made) {
      state_.erase(param_record.key);
      param_record.held = param_record.state = nullptr;
    } else if (pending.before) {
      *param_record.state = std::move(*pending.before);
    }
    put_back(*impl_->work[pending.work].p, pending.parameter);
    param_record.revision = -1;
  }
  impl_->pending.clear();
}

// Binds the shared state. Its initial values come from the options of the first group. It restarts if no parameter has
// state.
void Optimizer::bind_shared_state() {
  if (impl_->work.empty() || impl_->groups.empty()) return;
  const bool restart =
      impl_->pending.size() == state_.size() &&
      std::all_of(impl_->pending.begin(), impl_->pending.end(),
                  [](const auto& pending) { return pending.made; }) &&
      impl_->shared_state.has_stepped();  // last, because it may wait for the device
  if (restart) impl_->shared_state.clear();
  impl_->shared_state.bind(impl_->work.front().p->device(),
                           impl_->groups.front().record.initial_shared_state());
}

}  // namespace jitstep
