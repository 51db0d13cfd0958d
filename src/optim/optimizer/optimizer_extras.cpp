// What an optimizer's steps are given beside gradients: torch.amp's tensors, and leave to clear.
#include <torch/torch.h>

#include <utility>

#include "optim/optimizer/optimizer_records.h"
#include "optim/tensor/machines.h"
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
  if (has_memory(one.p->grad()))
    memory.push_back({&one.p->grad(), parameter, StepMemory::Use::cleared});
  one.state->for_each_tensor([&](const torch::Tensor& tensor) {
    if (tensor.defined()) memory.push_back({&tensor, parameter, StepMemory::Use::kept});
  });
}

}  // namespace

void Optimizer::set_grad_scale(torch::Tensor scale) {
  records_->extras.grad_scale = checked_number(std::move(scale), "grad_scale");
}

void Optimizer::set_found_inf(torch::Tensor found) {
  records_->extras.found_inf = checked_number(std::move(found), "found_inf");
}

const torch::Tensor& Optimizer::grad_scale() const { return records_->extras.grad_scale; }

const torch::Tensor& Optimizer::found_inf() const { return records_->extras.found_inf; }

void Optimizer::zero_grad_in_step(bool on) {
  records_->extras.clears = on;
  records_->clearing_checked = false;
}

void Optimizer::check_extras() const {
  for (const StepParameter& one : records_->work) {
    check_place(records_->extras.grad_scale, "grad_scale", one);
    check_place(records_->extras.found_inf, "found_inf", one);
  }
}

// Looks again when a gradient or some state lies elsewhere than in the step before.
void Optimizer::check_cleared() {
  Records& records = *records_;
  const bool same =
      records.pending.empty() && records.new_gradients.empty() && records.materialised.empty();
  if (!records.extras.clears || (records.clearing_checked && same)) return;
  records.clearing_checked = false;
  std::vector<StepMemory> memory;
  for (const StepParameter& one : records.work) add_memory(one, memory);
  for (const torch::Tensor* number : {&records.extras.grad_scale, &records.extras.found_inf})
    if (number->defined()) memory.push_back({number, {}, StepMemory::Use::number});
  jitstep::check_cleared(memory);
  records.clearing_checked = true;
}

// Has the device count the steps that it skips, before one that it may.
void Optimizer::count_skips() {
  const torch::Tensor& found_inf = records_->extras.found_inf;
  if (!found_inf.defined() || records_->work.empty()) return;
  machine_of(found_inf.device()).refuse_capture();  // which would record the making of counters
  std::vector<StepCount*> without;
  for (const StepParameter& one : records_->work)
    if (!one.state->t.lag().defined()) without.push_back(&one.state->t);
  records_->common.count_skips();
  if (without.empty()) return;
  const auto lags = torch::zeros({std::ssize(without)}, found_inf.options().dtype(torch::kInt64));
  for (std::size_t i = 0; i < without.size(); ++i)
    without[i]->attach(lags.select(0, static_cast<std::int64_t>(i)));
}

// Of gradients that torch only says are negated, the kernels have read and cleared a copy.
void Optimizer::clear_materialised() {
  if (!records_->extras.clears || records_->materialised.empty()) return;
  for (const StepParameter& one : records_->work)
    if (one.p->grad().is_neg()) one.p->mutable_grad().zero_();
}

}  // namespace jitstep
