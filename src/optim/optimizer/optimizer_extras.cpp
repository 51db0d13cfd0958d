// Additional inputs of a step: numbers on the device (grad_scale, found_inf, lr), clearing of gradients, and step
// counters on the device.
#include <torch/types.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "optim/optimizer/optimizer_impl.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

torch::Tensor checked_number(torch::Tensor number, const char* name) {
  if (!number.defined()) return number;
  TORCH_CHECK(number.layout() == torch::kStrided && number.scalar_type() == torch::kFloat32 &&
                  number.numel() == 1,
              "jitstep: ", name, " is ", describe(number), " with layout ", number.layout(),
              ". Pass a float32 tensor of one element.");
  return number.detach();
}

void check_device(const torch::Tensor& number, const char* name, const StepParam& one) {
  TORCH_CHECK(!number.defined() || number.device() == one.p->device(), "jitstep: ", name, " is on ",
              number.device(), ", but ", describe(*one.p, one.name), " is on ", one.p->device(),
              ". Set one on the parameters' device.");
}

// Appends the tensors that a step reads or writes for one parameter. A gradient without data needs no clearing.
void add_memory(const StepParam& one, std::vector<StepMemory>& memory) {
  const NamedParameter parameter{one.p, one.name};
  memory.push_back({one.p, parameter});
  if (has_data(one.p->grad()))
    memory.push_back({&one.p->grad(), parameter, StepMemory::Use::cleared});
  one.buffers->for_each_tensor([&](const torch::Tensor& tensor) {
    if (tensor.defined()) memory.push_back({&tensor, parameter, StepMemory::Use::state});
  });
}

bool lacks_counter(const StepCount& t, const StepExtras& extras) {
  if (extras.capturable) return !t.is_on_device() || t.is_set();
  return extras.found_inf.defined() && !t.step_offset().defined();
}

// Transforms of matrices wait for the device: for decompositions, and for the number of the step.
void check_capture(const jit::Manifest& rule, const torch::Device& device) {
  TORCH_CHECK(rule.matrices.empty() || !backend_of(device).is_capturing(), "jitstep: ", rule.name,
              " cannot step inside a CUDA graph capture: its matrices are decomposed in some of "
              "the steps, which a graph cannot do. Step outside the capture.");
}

// Creates counters for parameters of one device. `all`: they count all steps. Otherwise they count skipped steps.
void attach_counters(const torch::Device& device, const std::vector<StepCount*>& counts, bool all) {
  std::vector<std::int64_t> step_offsets;
  for (const StepCount* const t : counts) step_offsets.push_back(all ? t->step_offset_now() : 0);
  const torch::Tensor counters = torch::tensor(step_offsets, torch::kInt64).to(device);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    torch::Tensor counter = counters.select(0, static_cast<std::int64_t>(i));
    if (all)
      counts[i]->count_on_device(std::move(counter));
    else
      counts[i]->attach(std::move(counter));
  }
}

torch::Tensor checked_lr(torch::Tensor lr) {
  if (!lr.defined()) return lr;
  const bool number = lr.scalar_type() == torch::kFloat32 || lr.scalar_type() == torch::kFloat64;
  TORCH_CHECK(lr.layout() == torch::kStrided && number && lr.numel() == 1, "jitstep: lr is ",
              describe(lr), " with layout ", lr.layout(),
              ". Pass a float32 or float64 tensor of one element.");
  return lr.detach();
}

}  // namespace

void Optimizer::set_grad_scale(torch::Tensor scale) {
  impl_->extras.grad_scale = checked_number(std::move(scale), "grad_scale");
  impl_->clearing_checked = false;
}

void Optimizer::set_found_inf(torch::Tensor found) {
  impl_->extras.found_inf = checked_number(std::move(found), "found_inf");
  impl_->clearing_checked = false;
}

const torch::Tensor& Optimizer::grad_scale() const { return impl_->extras.grad_scale; }

const torch::Tensor& Optimizer::found_inf() const { return impl_->extras.found_inf; }

void Optimizer::zero_grad_in_step(bool on) {
  impl_->extras.clears = on;
  impl_->clearing_checked = false;
}

void Optimizer::capturable(bool on) {
  impl_->extras.capturable = on;
  if (on) return;
  impl_->stepper.drop_captured();
  for (Impl::Group& group : impl_->groups)
    for (Impl::ParamRecord& record : group.param_records)
      if (record.alone) record.alone->drop_captured();
}

bool Optimizer::is_capturable() const { return impl_->extras.capturable; }

void Optimizer::Impl::check_has_lr(std::size_t group) const {
  TORCH_CHECK(group < param_groups().size(), "jitstep: set_lr() of group ", group,
              ": there is no such group. The number of groups is ", param_groups().size(), ".");
  TORCH_CHECK(has_lr(group_options(group).manifest()), "jitstep: set_lr() of group ", group,
              ": its optimizer ", rule_of(group),
              " has no option lr that is a number. Call set_lr() for other groups only.");
}

void Optimizer::set_lr(std::size_t group, torch::Tensor lr) {
  impl_->sync_groups();
  impl_->check_has_lr(group);
  lr = checked_lr(std::move(lr));
  auto& lrs = impl_->lrs;
  lrs.resize(std::max(lrs.size(), group + 1));
  lrs[group] = std::move(lr);
  impl_->clearing_checked = false;
}

void Optimizer::set_lr(const torch::Tensor& lr) {
  impl_->sync_groups();
  for (std::size_t g = 0; g < param_groups_.size(); ++g) impl_->check_has_lr(g);
  for (std::size_t g = 0; g < param_groups_.size(); ++g) set_lr(g, lr);
}

// Passes the address of a group's learning rate to the kernels, if it is a tensor.
void Optimizer::Impl::point_to_lr(std::size_t g) {
  const torch::Tensor lr = g < lrs.size() ? lrs[g] : torch::Tensor();
  hyper_params[g].lr = lr.defined() ? lr.const_data_ptr() : nullptr;
  hyper_params[g].lr_bytes = lr.defined() ? static_cast<int64>(lr.element_size()) : 0;
}

void Optimizer::Impl::check_extras() const {
  TORCH_CHECK(
      !extras.capturable || given_inputs.empty(),
      "jitstep: a step with inputs of set_input() does not work with capturable(): a replay "
      "would read the same inputs again. Call capturable(false).");
  if (extras.capturable)
    for (const StepParam* const param : active)
      check_capture(groups[param->name.group].record.values().rule(), param->p->device());
  if (lrs.empty() && !extras.grad_scale.defined() && !extras.found_inf.defined()) return;
  for (const StepParam* const param : active) {
    if (param->name.group < lrs.size()) check_device(lrs[param->name.group], "lr", *param);
    check_device(extras.grad_scale, "grad_scale", *param);
    check_device(extras.found_inf, "found_inf", *param);
  }
}

// A number must not share memory with a parameter. Otherwise threads would read different values while one writes it.
void Optimizer::Impl::check_numbers() const {
  for (std::size_t g = 0; g < lrs.size(); ++g)
    if (lrs[g].defined()) memory.check_number(lrs[g], c10::str("the lr of group ", g));
  memory.check_number(extras.grad_scale, "grad_scale");
  memory.check_number(extras.found_inf, "found_inf");
}

// Checks the memory of gradients that the step clears. With offload(), Offload::check_step() does so. Repeats the check
// only after the storage of a gradient or state, or a tensor of set_lr(), set_grad_scale() or set_found_inf(), changed.
void Optimizer::Impl::check_cleared() {
  const bool same = pending.empty() && new_gradients.empty() && materialized.empty();
  if (!extras.clears || sharding || offload || (clearing_checked && same)) return;
  clearing_checked = false;
  std::vector<StepMemory> used;
  for (const StepParam* const param : active) add_memory(*param, used);
  for (const torch::Tensor* number : {&extras.grad_scale, &extras.found_inf})
    if (number->defined()) used.push_back({number, {}, StepMemory::Use::number});
  for (const torch::Tensor& lr : lrs)
    if (lr.defined()) used.push_back({&lr, {}, StepMemory::Use::number});
  jitstep::check_cleared(used);
  clearing_checked = true;
}

// Creates step counters on the device: with found_inf for skipped steps, if capturable for all steps.
void Optimizer::Impl::count_steps() {
  ever_capturable |= extras.capturable;
  if (!ever_capturable && !extras.found_inf.defined() && pending.empty()) return;
  std::unordered_map<torch::Device, std::vector<StepCount*>> without;
  for (const StepParam* const param : active) {
    StepCount& t = param->buffers->t;
    if (!extras.capturable && t.is_on_device()) t.count_on_host();
    if (lacks_counter(t, extras)) without[param->p->device()].push_back(&t);
  }
  for (const auto& [device, counts] : without) {
    // A capture would record the creation of counters.
    as_torch_error([&device = device] { backend_of(device).check_not_capturing(); });
    attach_counters(device, counts, extras.capturable);
  }
  if (active.empty() || shared_state.aux_state() == nullptr) return;
  if (shared_state.is_on_device() != extras.capturable)
    shared_state.count_on_device(extras.capturable);
  if (extras.found_inf.defined()) shared_state.count_skips();
}

// Clears gradients that kernels did not clear, because they read a part or a copy. With shard() or offload() these are
// all gradients, otherwise the lazily negated ones.
void Optimizer::Impl::clear_gradients() {
  const bool all = sharding || offload;
  if (!extras.clears || (!all && materialized.empty())) return;
  const c10::InferenceMode any;  // the program may have made gradients in it
  for (const StepParam* const param : active) {
    const torch::Tensor& grad = static_cast<const ParamRecord*>(param)->parameter->grad();
    if (grad.defined() && (all || grad.is_neg())) grad.detach().zero_();  // it may be a view
  }
}

void Optimizer::set_tuning_agreement(TuningAgreement agree) {
  impl_->agree_on_tuning = std::move(agree);
  impl_->tuning_is_settled = false;
}

}  // namespace jitstep
