// What an optimizer's steps are given beside gradients: numbers on the device, leave to clear, and counters there.
#include <torch/types.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "optim/optimizer/optimizer_impl.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {
namespace {

torch::Tensor checked_number(torch::Tensor number, const char* name) {
  if (!number.defined()) return number;
  TORCH_CHECK(number.layout() == torch::kStrided && number.scalar_type() == torch::kFloat32 &&
                  number.numel() == 1,
              "jitstep: ", name, " is ", number.dtype(), " of shape ", number.sizes(),
              " and layout ", number.layout(), "; give one float32, as torch.amp makes it");
  return number.detach();
}

void check_place(const torch::Tensor& number, const char* name, const StepParameter& one) {
  TORCH_CHECK(!number.defined() || number.device() == one.p->device(), "jitstep: ", name, " is on ",
              number.device(), " and ", describe(*one.p, one.name), " on ", one.p->device(),
              "; give the optimizer one on its parameters' device");
}

// The memory that a step uses for one parameter. A gradient without memory needs no clearing.
void add_memory(const StepParameter& one, std::vector<StepMemory>& memory) {
  const NamedParameter parameter{one.p, one.name};
  memory.push_back({one.p, parameter});
  if (has_data(one.p->grad()))
    memory.push_back({&one.p->grad(), parameter, StepMemory::Use::cleared});
  one.state->for_each_tensor([&](const torch::Tensor& tensor) {
    if (tensor.defined()) memory.push_back({&tensor, parameter, StepMemory::Use::state});
  });
}

bool lacks_counter(const StepCount& t, const StepExtras& extras) {
  if (extras.capturable) return !t.is_on_device() || t.is_set();
  return extras.found_inf.defined() && !t.step_offset().defined();
}

// For parameters of one device: of all steps, or of those that it skips.
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
              lr.dtype(), " of shape ", lr.sizes(), " and layout ", lr.layout(),
              "; give one float32 or float64");
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

void Optimizer::capturable(bool on) { impl_->extras.capturable = on; }

bool Optimizer::is_capturable() const { return impl_->extras.capturable; }

void Optimizer::set_lr(std::size_t group, torch::Tensor lr) {
  TORCH_CHECK(group < param_groups_.size(), "jitstep: set_lr() of group ", group, "; there are ",
              param_groups_.size());
  TORCH_CHECK(group_options(group).manifest().find("lr") != nullptr, "jitstep: set_lr() of group ",
              group, ", whose rule ", rule_of(group), " has no option lr");
  auto& lrs = impl_->lrs;
  lrs.resize(std::max(lrs.size(), group + 1));
  lrs[group] = checked_lr(std::move(lr));
  impl_->clearing_checked = false;
}

void Optimizer::set_lr(const torch::Tensor& lr) {
  for (std::size_t g = 0; g < param_groups_.size(); ++g) set_lr(g, lr);
}

// Where kernels find the learning rate of a group, if it is a tensor.
void Optimizer::point_to_lr(std::size_t g) {
  const auto& lrs = impl_->lrs;
  const torch::Tensor lr = g < lrs.size() ? lrs[g] : torch::Tensor();
  impl_->hyper_params[g].lr = lr.defined() ? lr.const_data_ptr() : nullptr;
  impl_->hyper_params[g].lr_bytes = lr.defined() ? static_cast<int64>(lr.element_size()) : 0;
}

void Optimizer::check_extras() const {
  for (const StepParameter& one : impl_->work) {
    if (one.name.group < impl_->lrs.size()) check_place(impl_->lrs[one.name.group], "lr", one);
    check_place(impl_->extras.grad_scale, "grad_scale", one);
    check_place(impl_->extras.found_inf, "found_inf", one);
  }
}

// Each thread would read another number where one of them writes.
void Optimizer::check_numbers() const {
  for (std::size_t g = 0; g < impl_->lrs.size(); ++g)
    if (impl_->lrs[g].defined())
      impl_->memory.check_number(impl_->lrs[g], c10::str("the lr of group ", g));
  impl_->memory.check_number(impl_->extras.grad_scale, "grad_scale");
  impl_->memory.check_number(impl_->extras.found_inf, "found_inf");
}

// Looks again when a gradient or some state lies elsewhere than in the step before.
void Optimizer::check_cleared() {
  Impl& records = *impl_;
  const bool same =
      records.pending.empty() && records.new_gradients.empty() && records.materialised.empty();
  if (!records.extras.clears || (records.clearing_checked && same)) return;
  records.clearing_checked = false;
  std::vector<StepMemory> memory;
  for (const StepParameter& one : records.work) add_memory(one, memory);
  for (const torch::Tensor* number : {&records.extras.grad_scale, &records.extras.found_inf})
    if (number->defined()) memory.push_back({number, {}, StepMemory::Use::number});
  for (const torch::Tensor& lr : records.lrs)
    if (lr.defined()) memory.push_back({&lr, {}, StepMemory::Use::number});
  jitstep::check_cleared(memory);
  records.clearing_checked = true;
}

// Has the device count the steps that it skips, before one that it may, or all of them.
void Optimizer::count_steps() {
  const StepExtras& extras = impl_->extras;
  std::unordered_map<torch::Device, std::vector<StepCount*>> without;
  for (const StepParameter& one : impl_->work) {
    StepCount& t = one.state->t;
    if (!extras.capturable && t.is_on_device()) t.count_on_host();
    if (lacks_counter(t, extras)) without[one.p->device()].push_back(&t);
  }
  for (const auto& [device, counts] : without) {
    backend_of(device).refuse_capture();  // which would record the making of counters
    attach_counters(device, counts, extras.capturable);
  }
  if (impl_->work.empty() || impl_->shared_state.aux_state() == nullptr) return;
  if (impl_->shared_state.is_on_device() != extras.capturable)
    impl_->shared_state.count_on_device(extras.capturable);
  if (extras.found_inf.defined()) impl_->shared_state.count_skips();
}

// Of gradients that torch only says are negated, the kernels have read and cleared a copy.
void Optimizer::clear_materialised() {
  if (!impl_->extras.clears || impl_->materialised.empty()) return;
  for (const StepParameter& one : impl_->work)
    if (one.p->grad().is_neg()) one.p->mutable_grad().zero_();
}

void Optimizer::set_tuning_agreement(TuningAgreement agree) {
  impl_->agree = std::move(agree);
  impl_->tuning_is_settled = false;
}

}  // namespace jitstep
