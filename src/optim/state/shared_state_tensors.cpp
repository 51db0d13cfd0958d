#include "optim/state/shared_state_tensors.h"

#include <algorithm>
#include <utility>

#include "jit/base/closest.h"
#include "jit/base/text.h"

namespace jitstep {
namespace {

std::vector<const jit::AuxField*> shared_fields(const jit::Manifest& rule) {
  std::vector<const jit::AuxField*> fields;
  for (const jit::AuxField& field : rule.aux_state)
    if (field.is_shared()) fields.push_back(&field);
  return fields;
}

torch::Tensor row_of(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

}  // namespace

std::vector<std::string> shared_names(const jit::Manifest& rule) {
  std::vector<std::string> names;
  for (const jit::AuxField* field : shared_fields(rule)) names.push_back(field->name);
  return names;
}

std::size_t shared_index(const jit::Manifest& rule, const std::string& name) {
  const auto fields = shared_fields(rule);
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto* field) {
    return field->name == name || field->torch_name == name;
  });
  TORCH_CHECK(found != fields.end(), "jitstep: ", rule.name, " has no shared state \"", name, "\"",
              jit::did_you_mean(name, shared_names(rule)),
              ". It has: ", fields.empty() ? "none" : jit::joined(shared_names(rule)), ".");
  return static_cast<std::size_t>(found - fields.begin());
}

void SharedStateTensors::bind(const torch::Device& device, const std::vector<double>& initial) {
  if (initial.empty()) return;
  const bool here = buffers_.defined() && buffers_.device() == device;
  // The host's count is sufficient here. has_stepped() would wait for the device's count of skipped steps.
  if (here && initial == started_ && aux_state_.steps > 0) return;
  const bool fresh = !values_set_ && !has_stepped();
  if (!here) {
    const auto known = fresh ? std::nullopt : values();
    const bool on_device = on_device_;
    count_on_device(false);  // its counter is on the old device
    buffers_ = torch::empty({2, static_cast<std::int64_t>(initial.size())},
                            torch::dtype(torch::kFloat64).device(device));
    auto* const first = buffers_.data_ptr<double>();
    aux_state_.buffers = {first, first + initial.size()};
    if (known) write(*known);
    count_on_device(on_device);
  }
  if (fresh) write(initial), started_ = initial;
}

void SharedStateTensors::count_skips() {
  if (!buffers_.defined() || step_offset_.defined()) return;
  attach(0);
}

void SharedStateTensors::count_on_device(bool on) {
  if (!buffers_.defined() || on == on_device_) return;
  aux_state_.steps = steps();
  step_offset_.reset();
  aux_state_.step_offset = nullptr;
  on_device_ = on;
  if (!on) return;
  ++aux_state_.steps;  // 0 would mean that no step was counted. The offset of 1 compensates.
  attach(1);
}

void SharedStateTensors::attach(std::int64_t step_offset) {
  step_offset_ =
      torch::full({}, step_offset, torch::dtype(torch::kInt64).device(buffers_.device()));
  aux_state_.step_offset = reinterpret_cast<int64*>(step_offset_.data_ptr());
}

// The number of steps that were not skipped. Drops the counter of skipped steps until the next count_skips().
std::int64_t SharedStateTensors::steps() const {
  if (on_device_) return aux_state_.steps - step_offset_.item<std::int64_t>();
  if (step_offset_.defined())
    aux_state_.steps -= std::exchange(step_offset_, {}).item<std::int64_t>();
  aux_state_.step_offset = nullptr;
  return aux_state_.steps;
}

void SharedStateTensors::restart() {
  started_.clear();
  if (on_device_) {
    step_offset_.fill_(aux_state_.steps);
    return;
  }
  step_offset_.reset();
  aux_state_.step_offset = nullptr;
  aux_state_.steps = 0;
}

std::optional<std::vector<double>> SharedStateTensors::values() const {
  if (!buffers_.defined() || (started_.empty() && !values_set_)) return std::nullopt;
  const torch::Tensor now = buffers_[steps() & 1].cpu();
  const double* const first = now.const_data_ptr<double>();
  return std::vector<double>(first, first + now.numel());
}

void SharedStateTensors::set(const std::vector<double>& values) {
  if (!buffers_.defined()) bind(torch::kCPU, values);
  write(values);
  restart();
  values_set_ = true;
}

void SharedStateTensors::clear() {
  restart();
  values_set_ = false;
}

// Writes both buffers, so that the parity of the next step does not matter.
void SharedStateTensors::write(const std::vector<double>& values) {
  buffers_.copy_(row_of(values));
}

}  // namespace jitstep
