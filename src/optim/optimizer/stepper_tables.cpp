#include "optim/optimizer/stepper_tables.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "jit/step/batch_numbers.h"
#include "jit/step/step_checks.h"
#include "jitstep/jit/catalog.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

jit::KernelSpec spec_of(const KernelKey& key, bool scaled) {
  jit::KernelSpec spec = key.plan->spec;
  if (scaled) spec.gradient_flags["scaled"] = true;
  spec.gradient = key.gradient;
  spec.strided = key.strided;
  return spec;
}

KernelKey kernel_key(const StepParam& param) {
  const bool strided = !is_dense_like(*param.p, *param.p) || !is_dense_like(*param.p, *param.grad);
  return {param.buffers->plan.get(), dtype_of(*param.grad), strided};
}

template <class T, class Same, class Make>
std::size_t find_or_add(std::vector<T>& items, Same same, Make make) {
  const auto found = std::find_if(items.begin(), items.end(), same);
  const auto index = static_cast<std::size_t>(found - items.begin());
  if (found == items.end()) items.push_back(make());
  return index;
}

}  // namespace

std::uint64_t Stepper::State::new_id() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

DeviceStep& Stepper::State::device_of(StepParam& param) {
  const torch::Device device = param.p->device();
  param.row.device = find_or_add(
      devices, [&](const DeviceStep& known) { return known.device == device; },
      [&] {
        return DeviceStep{device, as_torch_error([&] { return &backend_of(device); })};
      });
  return devices[param.row.device];
}

// The batch of a kernel. Plans of several groups may be equal, and then share a batch.
std::size_t Stepper::State::batch_of(DeviceStep& device, const KernelKey& key) const {
  const auto [known, added] = device.batch_of.try_emplace(key, 0);
  if (!added) return known->second;
  jit::Plan plan = jit::resolve(spec_of(key, scaled), *key.plan->catalog);
  known->second = find_or_add(
      device.batches, [&](const jit::Batch& batch) { return batch.plan.is_same_kernel(plan); },
      [&] {
        return jit::Batch{std::move(plan), {}};
      });
  device.names.resize(device.batches.size());
  return known->second;
}

void Stepper::State::add(StepParam& param, jit::StepTensor tensor, const KernelKey& key) {
  const bool by_loops = param.p->is_cpu() && key.plan->rule().transforms.empty();
  param.row = {id, param.version, by_loops};
  DeviceStep& device = device_of(param);
  const std::size_t index = param.row.batch = batch_of(device, key);
  jit::Batch& batch = device.batches[index];
  with_context(*param.p, param.name,
               [&] { as_torch_error([&] { jit::check_tensors(batch.plan, {tensor}); }); });
  device.names[index].push_back(param.name);
  param.row.index = batch.tensors.size();
  batch.tensors.push_back(std::move(tensor));
}

void Stepper::State::add_active(StepParam& param) {
  add(param, step_tensor(*param.p, *param.buffers, param.grad->strides()), kernel_key(param));
}

// Copies the row of the last tables, if that is current.
void Stepper::State::add_inactive(StepParam& param, const State& last) {
  if (last.scaled != scaled || !last.has_row(param)) return;
  const DeviceStep& known = last.devices[param.row.device];
  const jit::KernelSpec& spec = known.batches[param.row.batch].plan.spec;
  add(param, known.tensor(param.row), {param.buffers->plan.get(), spec.gradient, spec.strided});
}

// Makes the inputs, batch by batch.
void Stepper::State::number_inputs(std::initializer_list<const std::vector<StepParam*>*> lists) {
  std::vector<std::vector<std::size_t>> first;  // by device and batch
  for (DeviceStep& device : devices) {
    const std::size_t count = first.emplace_back(jit::first_numbers(device.batches)).back();
    device.inputs.resize(count);
    device.params.resize(count);
    rows += count;
    device.batch_of.clear();  // its plans may not outlive the tables
  }
  for (const auto* const list : lists)
    for (StepParam* const param : *list)
      if (TableRow& row = param->row; row.tables == id)
        row.input = &devices[row.device].inputs[first[row.device][row.batch] + row.index];
}

// Sets the inputs of a step. False if the tables lack the current row of a parameter. `ahead`: 0 for the HyperParams of
// the last step, 1 for those of the next one.
bool Stepper::State::set_inputs(const StepMembers& now, const StepExtras& extras, int ahead) {
  hyper_params.start(now.groups, extras);
  if (now.active.size() < rows)  // else each input is set below
    for (DeviceStep& device : devices)
      std::fill(device.inputs.begin(), device.inputs.end(), jit::StepInput{.inactive = true});
  for (const StepParam* const param : now.active) {
    if (!has_row(*param)) return false;
    const TableRow& row = param->row;
    const StepCount& t = param->buffers->t;
    jit::StepInput& input = *row.input;
    input = {param->g, hyper_params.index(param->name.group, t.counted() + ahead, t.step_offset()),
             row.by_loops || is_aligned(devices[row.device].tensor(row), param->g),
             extras.clears ? param->grad->mutable_data_ptr() : nullptr};
    if (param->inputs == nullptr) continue;
    for (std::size_t i = 0; i < param->inputs->size(); ++i)
      if (const torch::Tensor& one = (*param->inputs)[i]; one.defined())
        input.inputs[i] = one.const_data_ptr();
  }
  return true;
}

}  // namespace jitstep
