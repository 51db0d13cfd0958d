// Stepper: from parameters to batches, tables and kernels.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "backends.h"
#include "cuda_host.h"
#include "flag.h"
#include "jit/codegen/shared_sums.h"
#include "jit/step/batch_numbers.h"
#include "jit/step/shared_memory.h"
#include "jitstep/jit/error.h"
#include "overlap.h"
#include "stepper.h"

namespace jitstep::python {

std::uint32_t Stepper::device_of(const Described& described) {
  const Device& device = described.plan.device;
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].device == device) return static_cast<std::uint32_t>(i);
  jit::Backend* backend = nullptr;
  {
    const nb::gil_scoped_release release;
    backend = &backend_of(device);
  }
  devices_.push_back(DeviceStep{device, backend});
  return static_cast<std::uint32_t>(devices_.size() - 1);
}

// The batch of a parameter's kernel.
std::uint32_t Stepper::batch_of(const Described& described, DeviceStep& device) const {
  jit::KernelSpec spec = described.plan.plan->spec;
  spec.gradient = described.g_dtype;
  spec.strided = is_strided(described.tensor);
  if (scaled_) spec.gradient_flags["scaled"] = true;
  jit::Plan plan = jit::resolve(spec, *described.plan.plan->catalog);
  auto& batches = device.batches;
  const auto known = std::find_if(batches.begin(), batches.end(), [&](const jit::Batch& batch) {
    return batch.plan.is_same_kernel(plan);
  });
  const auto number = static_cast<std::uint32_t>(known - batches.begin());
  if (known == batches.end()) batches.push_back({std::move(plan), {}});
  return number;
}

// Finding a batch is slow, so parameters of one plan and forms share the result.
void Stepper::make_batches() {
  std::map<std::tuple<std::uint32_t, const jit::Plan*, const Forms*>, std::uint32_t> known;
  for (Member& member : members_) {
    if (!member.described) continue;
    Described& described = *member.described;
    member.device = device_of(described);
    DeviceStep& device = devices_[member.device];
    const auto [batch, is_new] =
        known.try_emplace({member.device, described.plan.plan.get(), member.forms});
    if (is_new) batch->second = batch_of(described, device);
    member.batch = batch->second;
    auto& tensors = device.batches[member.batch].tensors;
    member.index = static_cast<std::uint32_t>(tensors.size());
    tensors.push_back(std::move(described.tensor));
  }
}

// The tensors of a device are numbered batch after batch.
void Stepper::number_tensors() {
  std::vector<std::vector<std::size_t>> first;  // by device and batch
  for (DeviceStep& device : devices_) {
    const std::size_t count = first.emplace_back(jit::first_numbers(device.batches)).back();
    device.inputs.assign(count, {.inactive = true});
    device.member_of.assign(count, 0);
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (!member.described) continue;
    member.index += static_cast<std::uint32_t>(first[member.device][member.batch]);
    devices_[member.device].member_of[member.index] = i;
  }
}

namespace {

jit::Elements elements_of(const jit::StepTensor& tensor, const jit::Batch& batch) {
  return jit::elements_at(tensor.p, tensor.shape.sizes, tensor.shape.strides,
                          static_cast<std::size_t>(jit::bytes_of(batch.plan.spec.state.dtype)));
}

jit::Elements elements_of_gradient(const void* g, const jit::StepTensor& tensor,
                                   const jit::Batch& batch) {
  return jit::elements_at(g, tensor.shape.sizes, tensor.g_strides,
                          static_cast<std::size_t>(jit::bytes_of(batch.plan.spec.gradient)));
}

// A step reads each element of such a gradient before it writes that element of the parameter.
bool is_the_parameter(const void* g, const jit::StepTensor& tensor, const jit::Batch& batch) {
  if (g != tensor.p || batch.plan.spec.gradient != batch.plan.spec.state.dtype) return false;
  for (std::size_t d = 0; d < tensor.g_strides.size(); ++d)
    if (tensor.shape.sizes[d] > 1 && tensor.g_strides[d] != tensor.shape.strides[d]) return false;
  return true;
}

}  // namespace

// Calls visit(tensor, batch, gradient) for the tensors that have elements.
template <class Visit>
void Stepper::for_each_tensor(const Visit& visit) const {
  for (const DeviceStep& device : devices_) {
    auto input = device.inputs.begin();
    for (const jit::Batch& batch : device.batches)
      for (const jit::StepTensor& tensor : batch.tensors) {
        const void* const gradient = (input++)->g;
        if (tensor.shape.elements() > 0) visit(tensor, batch, gradient);
      }
  }
}

// A step would write to shared memory at once.
void Stepper::check_disjoint() {
  std::vector<jit::Elements> elements;
  std::vector<int> numbers;
  for_each_tensor([&](const jit::StepTensor& tensor, const jit::Batch& batch, const void*) {
    elements.push_back(elements_of(tensor, batch));
    numbers.push_back(tensor.id);
  });
  parameter_ranges_ = jit::AddressRanges(elements);
  python::check_disjoint(elements, numbers);
}

bool Stepper::is_gradient_in_parameter(const Member& member, const void* g) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(g);
  return parameter_ranges_.overlap(begin, begin + member.g_bytes);
}

// In the memory that the tables have now.
bool Stepper::are_gradients_in_parameters() const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    return !member.inactive &&
           is_gradient_in_parameter(member, devices_[member.device].inputs[member.index].g);
  });
}

// Kernels read grad_scale while they write parameters. Those without a gradient are not written.
void Stepper::check_grad_scale() const {
  for (const DeviceStep& device : devices_) {
    const auto at = reinterpret_cast<std::uintptr_t>(device.grad_scale.address);
    if (at == 0 || !parameter_ranges_.overlap(at, at + sizeof(float))) continue;
    for_each_tensor([&](const jit::StepTensor& tensor, const jit::Batch& batch, const void* g) {
      const jit::Elements elements = elements_of(tensor, batch);
      if (g != nullptr && elements.begin <= at && at < elements.end)
        throw jit::Error(
            "grad_scale lies in the memory of a parameter, and the step would write to it while it "
            "reads the number. clone() it.");
    });
  }
}

// A step would write to the parameter while it reads the gradient. A parameter without a gradient is not written, and
// its memory may be another's by now.
void Stepper::check_gradients() const {
  for_each_tensor([&](const jit::StepTensor& own, const jit::Batch& batch, const void* g) {
    if (g == nullptr) return;
    const jit::Elements gradient = elements_of_gradient(g, own, batch);
    for_each_tensor([&](const jit::StepTensor& other, const jit::Batch& of_other, const void* its) {
      if (its == nullptr) return;
      if (&other == &own && is_the_parameter(g, own, batch)) return;
      if (jit::share_memory(elements_of(other, of_other), gradient))
        throw jit::Error("the gradient of parameter " + std::to_string(own.id) +
                         " shares memory with parameter " + std::to_string(other.id) +
                         ", and the step would write to it while it reads the gradient. clone() "
                         "the gradient.");
    });
  });
}

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

std::vector<double> Stepper::shared_state() const {
  if (!shared_state_) return restored_;
  const auto count =
      static_cast<std::size_t>(shared_state_->buffers[1] - shared_state_->buffers[0]);
  std::vector<double> values(count);
  download(shared_device_, values.data(), shared_state_->now(), count * sizeof(double));
  return values;
}

void Stepper::set_shared_state(const std::vector<double>& values) {
  check_idle();
  drop();
  for (DeviceStep& device : devices_) device.step.reset();
  shared_state_.reset();
  restored_ = values;
}

void Stepper::restart_shared_state() {
  if (shared_state_) set_shared_state({});
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
  auto result = std::make_unique<jit::SharedState>(jit::make_shared_state(*device.backend, values));
  for (double* const buffer : result->buffers)
    upload(device.device, buffer, held.data(), held.size() * sizeof(double));
  shared_state_ = std::move(result);
  shared_device_ = device.device;
  restored_.clear();
}

// Signal handlers of Python run while kernels compile. If one calls drop(), the tables are not ready.
void Stepper::make_steps() {
  const Flag running(running_);
  const int drops = drops_;
  ready_ = false;
  bool shares = false;
  for (const DeviceStep& device : devices_)
    for (const jit::Batch& batch : device.batches)
      shares = shares || !batch.plan.shared_state.empty();
  check_disjoint();
  check_devices();
  if (shares) make_shared_state(devices_.front());
  {
    const nb::gil_scoped_release release;
    for (DeviceStep& device : devices_) {
      device.step.emplace(*device.backend, device.batches, shares ? shared_state_.get() : nullptr);
      device.step->count_on_device(device_counts_);
      for (jit::Batch& batch : device.batches)
        for (jit::StepTensor& tensor : batch.tensors) tensor.layout.reset();  // is checked now
    }
  }
  tables_are_new_ = true;
  ready_ = drops == drops_;
}

void Stepper::finish(const nb::dict& state, bool scaled) {
  check_idle();
  scaled_ = scaled;
  revisions_.clear();
  for (Group* const group : groups_) {
    group->leave_lr(device_counts_);
    revisions_.push_back(group->revision());
  }
  make_batches();
  number_tensors();
  watch_.remember(state);  // before a signal handler may change it
  for (Member& member : members_)
    for (NewestView& view : member.newest) view.entry = &watch_.find(view.dict, view.key);
  is_bound_now_ = true;
  make_steps();
}

// Tables for parameters that have other memory, and are otherwise unchanged: as their formats and state are the same,
// this is a small part of a rebuild. False if a parameter has another form, or after drop(). Reads those without
// gradients, too: others may have got their old memory.
bool Stepper::move_parameters() {
  for (Member& member : members_)
    if (member.inactive && member.described && !member.read_data()) return false;
  for (DeviceStep& device : devices_) {
    std::size_t index = 0;
    for (jit::Batch& batch : device.batches)
      for (jit::StepTensor& tensor : batch.tensors) {
        tensor.p = members_[device.member_of[index++]].data;
        if (tensor.p == nullptr && tensor.shape.elements() > 0) return false;  // add() says so
      }
  }
  ready_ = false;  // if retire() throws
  retire();
  make_steps();
  check_gradients_ = are_gradients_in_parameters();
  moved_ = false;
  return ready_;
}

}  // namespace jitstep::python
