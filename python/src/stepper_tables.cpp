// Stepper: from parameters to batches, tables and kernels.
#include <algorithm>
#include <string>

#include "backends.h"
#include "cuda_host.h"
#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/error.h"
#include "stepper.h"

namespace jitstep::python {
namespace {

bool same_kind(const jit::StepTensor& a, const jit::StepTensor& b) {
  return a.shape == b.shape && a.g_strides == b.g_strides;
}

}  // namespace

Stepper::DeviceStep& Stepper::device_of(Member& member) {
  const Device& device = member.plan->device;
  const auto known = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const DeviceStep& one) { return one.device == device; });
  member.device = static_cast<std::size_t>(known - devices_.begin());
  if (known != devices_.end()) return *known;
  jit::Backend* backend = nullptr;
  {
    const nb::gil_scoped_release release;
    backend = &backend_of(device);
  }
  return devices_.emplace_back(DeviceStep{device, backend});
}

// The batch of a parameter's kernel. resolve() is slow, so a parameter like the last one has its batch.
std::size_t Stepper::batch_of(const Member& member, bool scaled) {
  const std::size_t at = static_cast<std::size_t>(&member - members_.data());
  for (std::size_t i = at; i-- > 0;) {
    const Member& other = members_[i];
    if (!other.plan || other.plan->plan != member.plan->plan || other.g_dtype != member.g_dtype ||
        other.device != member.device || !same_kind(other.tensor, member.tensor))
      continue;
    return other.batch;
  }
  jit::KernelSpec spec = member.plan->plan->spec;
  spec.gradient = member.g_dtype;
  spec.strided = is_strided(member.tensor);
  if (scaled) spec.gradient_flags["scaled"] = true;
  jit::Plan plan = jit::resolve(spec, *member.plan->plan->catalog);
  auto& batches = devices_[member.device].batches;
  for (std::size_t b = 0; b < batches.size(); ++b)
    if (batches[b].plan.is_same_kernel(plan)) return b;
  batches.push_back({std::move(plan), {}});
  return batches.size() - 1;
}

void Stepper::add_to_batch(Member& member) {
  DeviceStep& device = device_of(member);
  member.batch = batch_of(member, scaled_);
  jit::Batch& batch = device.batches[member.batch];
  member.index = batch.tensors.size();
  batch.tensors.push_back(member.tensor);
}

// The tensors of a device are numbered batch after batch.
void Stepper::number_tensors() {
  std::vector<std::vector<std::size_t>> first;  // by device and batch
  for (DeviceStep& device : devices_) {
    std::size_t count = 0;
    auto& of_device = first.emplace_back();
    for (const jit::Batch& batch : device.batches) {
      of_device.push_back(count);
      count += batch.tensors.size();
    }
    device.inputs.assign(count, {.inactive = true});
    device.member_of.assign(count, 0);
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (!member.plan) continue;
    member.index += first[member.device][member.batch];
    devices_[member.device].member_of[member.index] = i;
  }
}

namespace {

// The range of addresses of a parameter without gaps.
struct Extent {
  const char *begin, *end;
  int number;
};

void check_disjoint(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      throw jit::Error("parameters " + std::to_string(extents[i - 1].number) + " and " +
                       std::to_string(extents[i].number) +
                       " share memory. Give the optimizer one of them.");
}

}  // namespace

// Each device would sum over its own parameters only, so a sum over all parameters would be wrong.
void Stepper::check_devices() const {
  if (devices_.size() < 2) return;
  for (const DeviceStep& device : devices_)
    for (const jit::Batch& batch : device.batches)
      if (jit::needs_all_tensors(batch.plan))
        throw jit::Error(
            "parameters on " + devices_[0].device.name() + " and " + devices_[1].device.name() +
            " do not work with max_grad_norm or another sum over all parameters: each device would "
            "sum its own only. Call torch.nn.utils.clip_grad_norm_() instead, or use one optimizer "
            "per device.");
}

// Shared state moves to another device with the parameters.
void Stepper::make_shared_state(const DeviceStep& device) {
  const jit::OptionValues& values = groups_.front()->values();
  if (shared_state_ && shared_device_ == device.device) return;
  const std::vector<double> held = shared_state();
  const std::size_t wanted = jit::initial_shared_state(values).size();
  if (!held.empty() && held.size() != wanted)
    throw jit::Error("the checkpoint has " + std::to_string(held.size()) + " of " +
                     std::to_string(wanted) + " numbers of shared state. Save it again.");
  auto made = std::make_unique<jit::SharedState>(jit::make_shared_state(*device.backend, values));
  for (double* const buffer : made->buffers)
    upload(device.device, buffer, held.data(), held.size() * sizeof(double));
  shared_state_ = std::move(made);
  shared_device_ = device.device;
  restored_.clear();
}

void Stepper::make_steps() {
  std::vector<Extent> extents;
  bool shares = false;
  for (const DeviceStep& device : devices_)
    for (const jit::Batch& batch : device.batches) {
      shares = shares || !batch.plan.shared_state.empty();
      for (const jit::StepTensor& tensor : batch.tensors) {
        const auto* const begin = static_cast<const char*>(tensor.p);
        const auto bytes = tensor.shape.elements() * jit::bytes_of(batch.plan.spec.state.dtype);
        if (!batch.plan.spec.strided && bytes > 0)
          extents.push_back({begin, begin + bytes, tensor.id});
      }
    }
  check_disjoint(std::move(extents));
  check_devices();
  if (shares) make_shared_state(devices_.front());
  const nb::gil_scoped_release release;
  for (DeviceStep& device : devices_)
    device.step.emplace(*device.backend, device.batches, shares ? shared_state_.get() : nullptr);
}

void Stepper::finish(nb::dict state, bool scaled) {
  scaled_ = scaled;
  for (Member& member : members_)
    if (member.plan) add_to_batch(member);
  number_tensors();
  make_steps();
  watch_.remember(state);
  for (Member& member : members_)
    for (NewestView& view : member.newest) view.entry = &watch_.find(view.dict, view.key);
  ready_ = tables_are_new_ = true;
}

// Tables for parameters that have other memory, and are otherwise unchanged: as their formats and state are the same,
// this is a small part of a rebuild.
void Stepper::move_parameters() {
  for (DeviceStep& device : devices_) {
    std::size_t index = 0;
    for (jit::Batch& batch : device.batches)
      for (jit::StepTensor& tensor : batch.tensors)
        tensor.p = members_[device.member_of[index++]].tensor.p;
  }
  ready_ = false;  // after an error
  retire();
  make_steps();
  ready_ = tables_are_new_ = true;
  moved_ = false;
}

}  // namespace jitstep::python
