// Stepper: launches, tuning and the counts of steps.
#include <nanobind/stl/vector.h>

#include <chrono>
#include <utility>

#include "backends.h"
#include "cuda_host.h"
#include "flag.h"
#include "jit/step/capture.h"
#include "stepper.h"

namespace jitstep::python {

void Stepper::tune(bool on, nb::object agree) {
  check_idle();
  tuner_.reset();
  tuning_is_settled_ = tables_are_new_ = true;
  agree_ = agree.is_none() ? nb::object() : std::move(agree);
  if (!on) return;
  jit::Agreement agreement;
  if (agree_.is_valid())
    agreement = [this](const std::vector<double>& own) {
      const nb::gil_scoped_acquire acquire;
      const nb::object asked = agree_;  // the function may call tune()
      return nb::cast<std::vector<double>>(asked(own));
    };
  tuner_ = jit::make_step_tuner(true, std::move(agreement));
}

std::pair<std::size_t, std::size_t> Stepper::tuning_progress() const {
  if (!tuner_) return {};
  const jit::TuningProgress now = tuner_->progress();
  return {now.tried, now.candidates};
}

// A step with a configuration that the tuner tries or has chosen. Null: use the default step.
jit::Step* Stepper::tuned_step() {
  if (device_counts_) return nullptr;  // a graph repeats the step with tables that it owns
  if (!std::exchange(tuning_is_settled_, true)) tuner_ = jit::make_step_tuner(false, {});
  if (!tuner_ || devices_.size() != 1) return nullptr;
  const DeviceStep& device = devices_.front();
  const jit::TunerInput tables{*device.backend, device.batches, shared_state_.get(),
                               [at = device.device](void* to, const void* from, std::size_t bytes) {
                                 download(at, to, from, bytes);
                               }};
  if (tables_are_new_) {
    activate(nullptr);
    tuner_->begin(tables, hardware_of(device.device));
    tables_are_new_ = false;
  }
  return tuner_->choose(tables, device.inputs, device.hyper_params);
}

// A jit::Step orders only its own launches, so one must be complete before another one is used.
void Stepper::activate(jit::Step* tuned) {
  if (std::exchange(last_tuned_, tuned) == tuned) return;
  for (const DeviceStep& device : devices_) wait_for_all(device.device);
}

// After a capture the graph owns the tables. Steps outside of it need new ones.
bool Stepper::leave_graphs() {
  if (!device_counts_) return false;
  const std::size_t before = captured_.size();
  for (DeviceStep& device : devices_)
    if (device.step && device.step->is_captured() && !device.backend->is_capturing()) {
      captured_.emplace_back(device.device, std::move(*device.step));
      device.step.reset();
    }
  if (captured_.size() == before) return false;
  drop();
  return true;
}

void Stepper::run(nb::handle transform) {
  const Flag running(running_);
  const nb::gil_scoped_release release;
  trial_seconds_.reset();
  if (!device_counts_)
    for (const DeviceStep& device : devices_) check_not_capturing(device.device);
  jit::Step* const tuned = tuned_step();
  const bool is_trial = tuned != nullptr && tuner_->is_trial();
  activate(tuned);
  std::vector<std::pair<DeviceStep*, jit::Step*>> steps;
  for (DeviceStep& device : devices_)
    if (device.is_active()) steps.emplace_back(&device, tuned != nullptr ? tuned : &*device.step);
  std::vector<jit::Backend*> backends;
  for (const auto& [device, step] : steps) backends.push_back(device->backend);
  jit::check_same_capture(backends);
  // Prepare all devices before the first one changes anything.
  for (const auto& [device, step] : steps) step->prepare(device->inputs, device->hyper_params);
  if (is_trial) wait_for_all(devices_.front().device);
  const auto start = std::chrono::steady_clock::now();
  if (!transform.is_none())
    for (const auto& [device, step] : steps) {
      int number = 0;
      step->host_transform([&, on = device](const std::vector<jit::TransformedTensor>& tensors) {
        const nb::gil_scoped_acquire acquire;
        call_transform(transform, number++, *on, tensors);
      });
    }
  for (const auto& [device, step] : steps) step->launch();
  if (is_trial) wait_for_all(devices_.front().device);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (is_trial) trial_seconds_ = seconds.count();
}

void Stepper::finish_trial() {
  const auto tuner = tuner_;  // the agreement may call tune()
  if (const auto seconds = std::exchange(trial_seconds_, {}); seconds && tuner)
    tuner->record(*seconds);
}

// Gives the function (group, values, step, parameter) of each tensor.
void Stepper::call_transform(nb::handle transform, int number, const DeviceStep& device,
                             const std::vector<jit::TransformedTensor>& tensors) {
  nb::list given;
  for (const jit::TransformedTensor& one : tensors) {
    const Member& member = members_[device.member_of[one.tensor]];
    const nb::object values = tensor_at(device.device, one.values, member.described->plan.sizes(),
                                        member.described->plan.compact_strides(),
                                        member.described->p_dtype == jit::Dtype::float64);
    given.append(nb::make_tuple(member.group, values, member.count.get() + 1, member.p));
  }
  nb::borrow(transform)(number, given);
}

void Stepper::count_steps() {
  for (Member& member : members_) {
    if (member.inactive) continue;
    const std::int64_t t = member.count.get() + 1;
    member.count.count();
    if (member.newest_half < 0) continue;
    const auto half = static_cast<std::size_t>(t & 1);
    member.newest_half = static_cast<std::int8_t>(half);
    for (const NewestView& view : member.newest)
      StateWatch::set(view.dict, *view.entry, view.buffers[half]);
  }
}

void Stepper::switch_mode(bool train) {
  check_idle();
  const Flag running(running_);
  is_bound_now_ = false;
  std::vector<std::vector<jit::StepInput>> inputs;
  for (DeviceStep& device : devices_) {
    device.grad_scale = {};
    device.start(groups_.size());
    auto& of_device = inputs.emplace_back(device.inputs.size(), jit::StepInput{.inactive = true});
    for (std::size_t i = 0; i < of_device.size(); ++i) {
      const Member& member = members_[device.member_of[i]];
      const std::int64_t t = member.count.get();
      if (t > 0) of_device[i] = {.hyper_index = hyper_index(member, t)};
    }
  }
  const nb::gil_scoped_release release;
  activate(nullptr);
  const jit::Mode to = train ? jit::Mode::train : jit::Mode::eval;
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].is_active()) devices_[i].step->prepare(to, inputs[i], devices_[i].hyper_params);
  for (DeviceStep& device : devices_)
    if (device.is_active()) device.step->launch();
}

}  // namespace jitstep::python
