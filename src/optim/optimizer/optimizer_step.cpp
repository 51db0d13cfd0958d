// The optimizer's steps. A step that fails before its first launch undoes its changes.
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <span>
#include <utility>

#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/offload.h"
#include "optim/optimizer/reduction.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/errors.h"
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
  if (!tuning_is_settled)
    as_torch_error([&] { stepper.tune(jit::make_step_tuner(tunes, agree_on_tuning)); });
  tuning_is_settled = true;
  with_rollback([&] {
    check_cleared();
    count_steps();
    stepper.step({active, inactive, hyper_params}, shared_state.aux_state(), extras_of_step(),
                 transform());
  });
  if (reduction) reduction->end_step();
  return_parameters();
  if (offload) offload->drop_gradients();
  gather_parameters();
  clear_gradients();
  forget_inputs();
  as_torch_error([&] { stepper.finish_trial(); });
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
    gather_parameters();
  });
  mode = to;
}

// Conversions read the state that the last steps write, also those of single parameters in backward().
void Optimizer::Impl::wait_for_pending() {
  if (!pending.empty()) stepper.wait_for_last_step();
  for (const PendingBinding& one : pending)
    if (one.record->alone) one.record->alone->wait_for_last_step();
}

// Binds the states and calls `launch`. Restores the states if either throws. Host transforms are functions of the
// program, so `launch` may call the optimizer.
void Optimizer::Impl::with_rollback(const std::function<void()>& launch) {
  try {
    as_torch_error([&] {
      wait_for_pending();
      bind_states();
      bind_shared_state();
    });
    launching = true;
    launch();
    launching = false;
  } catch (...) {
    launching = false;
    restore_states();
    throw;
  }
  pending.clear();
}

// Finds the parameters with gradients (for a step), or those that have taken a step (for a switch of mode). Checks all
// before any is changed.
void Optimizer::Impl::gather_inputs(Operation operation) {
  if (!gather_groups(operation)) {
    sync_groups();
    gather_groups(operation);
  }
  if (operation == Operation::step) {
    check_devices();
    check_extras();
  }
  if (!memory_checked || !pending.empty()) check_memory();
  if (operation == Operation::step) check_new_gradients();
  use_parts();
  use_host_copies();
}

// Each device would sum over its own parameters only, so a sum over all parameters would be wrong.
void Optimizer::Impl::check_devices() const {
  if (!several_devices || offload || active.empty()) return;  // offloaded ones are stepped together
  const auto own = active.front()->p->device();
  const auto other = std::find_if(active.begin(), active.end(), [&](const StepParam* param) {
    return param->p->device() != own;
  });
  const bool sums = std::any_of(active.begin(), active.end(), [&](const StepParam* param) {
    return static_cast<const ParamRecord*>(param)->needs_all_tensors;
  });
  TORCH_CHECK(other == active.end() || !sums, "jitstep: parameters on ", own, " and ",
              (*other)->p->device(),
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
      record.set_parameter(param_groups()[g].params()[record.name.index]);
      // Also for inactive parameters, because kernel tables have their addresses.
      check_storage(record);
      record.gradient_checked = false;
      memory.add({record.parameter, record.name});
      const torch::Tensor& grad = record.parameter->grad();
      if (grad.defined() && !is_lazy(grad)) new_gradients.push_back(&record);
    }
  memory_checked = true;
}

void Optimizer::Impl::check_new_gradients() {
  check_numbers();
  for (ParamRecord* const record : new_gradients) {
    memory.check(record->parameter->grad(), {record->parameter, record->name});
    record->gradient_checked = true;
  }
}

// A parameter has other memory. The state may no longer fit.
void Optimizer::Impl::follow_storage(ParamRecord& record) {
  const torch::Tensor& p = *record.parameter;
  if (!record.fingerprint.same_metadata(p)) record.group_revision = -1;
  record.fingerprint = TensorFingerprint(p);
  record.gradient_checked = false;
  record.version = ++versions;
  memory_checked = false;
  if (!first_device) first_device = p.device();
  several_devices |= p.device() != *first_device;
}

const torch::Tensor* Optimizer::Impl::new_gradient(ParamRecord& record, const torch::Tensor& now) {
  const bool checked = std::exchange(record.gradient_checked, false);
  if (!now.defined()) return offload ? offload->gradient(record) : nullptr;
  const torch::Tensor* grad = &now;
  if (is_lazy(now))
    grad = &materialized.emplace_back(jitstep::materialized(now));
  else
    new_gradients.push_back(&record);
  const bool same = record.gradient.same_metadata(*grad);
  // The common case: a gradient with the same metadata in new memory. Only its memory needs a check.
  if (checked && same) {
    check_gradient_memory(*record.parameter, *grad, record.name);
    record.gradient.follow_memory(*grad);
  } else {
    check_gradient(*record.parameter, *grad, record.name);
    if (!same) record.version = ++versions;
    record.gradient = TensorFingerprint(*grad, TensorFingerprint::Access::read);
  }
  record.g = grad->const_data_ptr();
  return grad;
}

// Prepares options that the program has assigned to an existing group. Only such options still refer to the default
// catalog. Unlike the options of a new group, they inherit no defaults.
void Optimizer::Impl::prepare_assigned(Options& options) const {
  if (&options.catalog() != &jit::default_catalog()) return;
  options.check_intact();
  options.set_catalog(default_options().catalog());
  options.construct();
}

void Optimizer::Impl::refresh_options(std::size_t g) {
  GroupRecord& record = groups[g].record;
  with_group_context(g, [&] {
    prepare_assigned(group_options(g));
    record.refresh(group_options(g), ValidationPhase::step, hyper_params[g]);
  });
  point_to_lr(g);
}

[[gnu::always_inline]] inline void Optimizer::Impl::gather_param(ParamRecord& record,
                                                                 const torch::Tensor& p,
                                                                 std::int64_t group_revision,
                                                                 Operation operation) {
  record.set_parameter(p);
  const bool storage_unchanged = check_storage(record);
  if (sharding) update_part(record, p);
  record.grad = operation == Operation::step ? gradient_of(record) : &p;
  const bool bound = record.is_bound(find_state(record), group_revision, storage_unchanged);
  if (record.grad == nullptr) {
    if (bound) inactive.push_back(&record);
    return;
  }
  if (!bound && !add_pending(record, operation)) return;
  record.inputs = given_inputs.empty() ? nullptr : inputs_of(record);
  active.push_back(&record);
}

// False if the groups do not have the parameters of the records. Users may change param_groups() directly.
bool Optimizer::Impl::gather_groups(Operation operation) {
  start_gathering();
  if (groups.size() != param_groups().size()) return false;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t count = groups[g].param_records.size();
    if (param_groups()[g].params().size() != count) return false;
    if (rule_moved(g)) return false;
    refresh_options(g);
    if (!gather_params(g, 0, count, operation)) return false;
  }
  return true;
}

// The same for some parameters of a group.
bool Optimizer::Impl::gather_params(std::size_t g, std::size_t first, std::size_t last,
                                    Operation operation) {
  const torch::Tensor* p = param_groups()[g].params().data() + first;
  const std::int64_t revision = groups[g].record.revision();
  for (ParamRecord& record : std::span(groups[g].param_records).subspan(first, last - first)) {
    if (key_of(*p) != record.key) return false;
    if (!record.repeated) gather_param(record, *p, revision, operation);
    ++p;
  }
  return true;
}

// Schedules that the parameter's state is created or bound again. False if that is not needed to switch the mode.
bool Optimizer::Impl::add_pending(ParamRecord& record, Operation operation) {
  look_up(record);
  const bool has_stepped = record.state != nullptr && record.state->step() != 0;
  if (operation == Operation::switch_mode && !has_stepped) return false;
  const torch::Tensor& p = *record.parameter;
  check_tensor(p, record.name);
  auto plan =
      with_context(p, record.name, [&] { return groups[record.name.group].record.plan(p); });
  record.needs_all_tensors = jit::needs_all_tensors(*plan);
  check_formats_of_part(record, *plan);
  pending.push_back({&record, std::move(plan), false, std::nullopt});
  return true;
}

}  // namespace jitstep
