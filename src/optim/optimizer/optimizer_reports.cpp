// Reports of the kernels that an optimizer uses, or will use in its first step, and of its memory.
#include <torch/types.h>

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "jit/base/text.h"
#include "jitstep/reports.h"
#include "optim/optimizer/offload.h"
#include "optim/reports/kernel_report.h"
#include "optim/reports/memory_measure.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {

// Compiles the kernels of all parameters. A parameter without a gradient is assumed to get one with its own dtype and
// strides. So is one with reduced gradients, which are flat parts.
std::vector<KernelReport> Optimizer::Impl::compiled_kernels() {
  const OwnOperations own;
  sync_groups();
  std::deque<StateBuffers> outlines;
  std::deque<StepParam> outlined;
  std::vector<StepParam*> active_params;
  if (offload) offload->refresh();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const GroupRecord& group = groups[g].record;
    refresh_options(g);
    for (std::size_t i = 0; i < param_groups()[g].params().size(); ++i) {
      ParamRecord& record = groups[g].param_records[i];
      if (record.repeated) continue;
      record.gradient_checked = false;
      const torch::Tensor& p = param_groups()[g].params()[i];
      record.set_parameter(p);
      with_context(p, record.name, [&] { outlines.push_back(state_outline(group.plan(p))); });
      outlines.back().id = static_cast<int>(outlines.size()) - 1;
      const torch::Tensor* const grad = reduction ? nullptr : gradient_of(record);
      outlined.push_back({.name = record.name,
                          .p = offload ? &offload->stepped(record.key, p) : &p,
                          .grad = grad == nullptr ? &p : grad,
                          .buffers = &outlines.back()});
      active_params.push_back(&outlined.back());
    }
  }
  SharedStateTensors initial_state;
  if (!outlined.empty())
    initial_state.bind(outlined.front().p->device(), groups.front().record.initial_shared_state());
  Stepper preview;
  preview.prepare(active_params, {}, initial_state.aux_state(), extras.grad_scale.defined());
  return preview.kernels();
}

void Optimizer::compile() { impl_->compiled_kernels(); }

std::vector<KernelReport> Optimizer::kernels() {
  std::vector<KernelReport> reports = impl_->stepper.kernels();
  for (const Impl::Group& group : impl_->groups)
    for (const Impl::ParamRecord& record : group.param_records)
      if (record.alone)
        for (KernelReport& one : record.alone->kernels()) add_kernel(reports, std::move(one));
  return reports.empty() ? impl_->compiled_kernels() : reports;
}

MemoryReport Optimizer::memory_report() const {
  std::map<const void*, MemoryMeasure::StateView>
      states;  // states whose parameter was not found in a group yet
  for (const auto& [key, entry] : state_)
    if (const auto* const state = dynamic_cast<const ParamState*>(entry.get()))
      states.emplace(
          key, MemoryMeasure::StateView{state->data().buffers, state->data().declared_slots()});
  MemoryReport report;
  MemoryMeasure measure;
  std::set<const void*> listed;
  for (std::size_t g = 0; g < param_groups_.size(); ++g)
    for (std::size_t i = 0; i < param_groups_[g].params().size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      if (!listed.insert(key_of(p)).second) continue;
      const auto own = states.extract(key_of(p));
      const MemoryMeasure::StateView* const state = own.empty() ? nullptr : &own.mapped();
      MemoryMeasure::Entries entries = measure.parameter(p, state);
      if (impl_->offload) impl_->offload->measure(key_of(p), measure, entries);
      report.parameters.push_back({g, i, p.sizes().vec(), p.numel(), impl_->rule_of(g),
                                   state != nullptr, std::move(entries)});
    }
  for (const auto& [key, state] : states) measure.add_state(report.others, state);
  const SharedStateTensors& shared_state = impl_->shared_state;
  measure.add(report.others, MemoryReport::Kind::aux_state,
              jit::joined(shared_names(impl_->default_options().manifest())), "float64",
              shared_state.buffers());
  measure.add(report.others, MemoryReport::Kind::aux_state, "skipped steps", "int64",
              shared_state.step_offset());
  return report;
}

}  // namespace jitstep
