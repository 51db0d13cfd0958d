// Reports of the kernels that an optimizer uses, or will use in its first step.
#include "jitstep/kernel_report.h"

#include <torch/types.h>

#include <algorithm>
#include <deque>

#include "jit/base/text.h"
#include "jit/engine/kernel_list.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// "0/0, 0/1, 1/0 and 12 others": group and index.
std::string names_of(const std::vector<KernelReport::Parameter>& parameters) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(parameters.size(), kShown);
  const std::vector<KernelReport::Parameter> first(parameters.begin(),
                                                   parameters.begin() + std::ptrdiff_t(shown));
  std::string names = jit::joined(
      first, ", ", [](const auto& one) { return jit::str_cat(one.group, "/", one.index); });
  if (shown < parameters.size())
    names += jit::str_cat(" and ", parameters.size() - shown, " others");
  return names;
}

}  // namespace

std::string KernelReport::text() const {
  std::string lines = jit::str_cat(
      name(), " for ", jit::to_string(target()), " on ", device, "\n  key        ", built->key,
      "\n  made       ", built->from_cache ? "found in the cache" : "compiled", ", ",
      built->compile_ms, " ms, ", binary().size(), " bytes\n  config     ",
      jit::to_string(how.config), ": ", how.why, "\n  parameters ", parameters.size(),
      " (group/index ", names_of(parameters), ")\n");
  for (const jit::Resources& one : resources())
    lines += jit::str_cat("  ", one.entry, ": ", one.registers, " registers, ", one.shared_bytes,
                          " bytes shared, ", one.stack_bytes, " stack, ",
                          one.spill_store_bytes + one.spill_load_bytes, " spilled\n");
  return lines;
}

void add_kernel(std::vector<KernelReport>& reports, KernelReport one) {
  const auto same = std::find_if(reports.begin(), reports.end(), [&](const KernelReport& known) {
    return known.built->key == one.built->key && known.device == one.device;
  });
  if (same == reports.end()) return reports.push_back(std::move(one));
  same->parameters.insert(same->parameters.end(), one.parameters.begin(), one.parameters.end());
}

// Compiles the kernels of all parameters. A parameter without a gradient is assumed to get one with its own dtype and
// strides.
std::vector<KernelReport> Optimizer::Impl::compiled_kernels() {
  const OwnOperations own;
  if (!groups_unchanged()) sync_groups();
  std::deque<StateBuffers> outlines;
  std::deque<StepParam> outlined;
  std::vector<StepParam*> active_params;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const GroupRecord& group = groups[g].record;
    refresh_options(g);
    for (std::size_t i = 0; i < param_groups()[g].params().size(); ++i) {
      ParamRecord& record = groups[g].param_records[i];
      if (record.repeated) continue;
      record.gradient_checked = false;
      record.p = &param_groups()[g].params()[i];
      with_context(*record.p, record.name,
                   [&] { outlines.push_back(state_outline(group.plan(*record.p))); });
      outlines.back().id = static_cast<int>(outlines.size()) - 1;
      const torch::Tensor* const grad = gradient_of(record);
      outlined.push_back({.name = record.name,
                          .p = record.p,
                          .grad = grad == nullptr ? record.p : grad,
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

void write_kernels(const std::vector<KernelReport>& kernels, const std::string& file) {
  std::vector<std::shared_ptr<const jit::Built>> built;
  for (const KernelReport& one : kernels) built.push_back(one.built);
  as_torch_error([&] { jit::write_kernel_list(built, file); });
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

}  // namespace jitstep
