#include "optim/state/common_state.h"

#include <algorithm>
#include <utility>

#include "jit/base/closest.h"
#include "jit/base/text.h"

namespace jitstep {
namespace {

std::vector<const jit::MemoryField*> common_fields(const jit::Manifest& rule) {
  std::vector<const jit::MemoryField*> fields;
  for (const jit::MemoryField& field : rule.memory)
    if (field.is_common()) fields.push_back(&field);
  return fields;
}

torch::Tensor row_of(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

}  // namespace

std::vector<std::string> common_names(const jit::Manifest& rule) {
  std::vector<std::string> names;
  for (const jit::MemoryField* field : common_fields(rule)) names.push_back(field->name);
  return names;
}

std::size_t common_place(const jit::Manifest& rule, const std::string& name) {
  const auto fields = common_fields(rule);
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto* field) {
    return field->name == name || field->torch_name == name;
  });
  TORCH_CHECK(found != fields.end(), rule.name, " keeps no memory \"", name,
              "\" of the whole optimizer", jit::did_you_mean(name, common_names(rule)),
              "; it keeps ", fields.empty() ? "none" : jit::joined(common_names(rule)));
  return static_cast<std::size_t>(found - fields.begin());
}

void CommonState::bind(const torch::Device& device, const std::vector<double>& initial) {
  if (initial.empty()) return;
  const bool here = halves_.defined() && halves_.device() == device;
  if (here && initial == begun_ && memory_.steps > 0) return;  // does not ask what was skipped
  const bool fresh = !given_ && !has_stepped();
  if (!here) {
    const auto held = fresh ? std::nullopt : values();
    halves_ = torch::empty({2, static_cast<std::int64_t>(initial.size())},
                           torch::dtype(torch::kFloat64).device(device));
    auto* const first = halves_.data_ptr<double>();
    memory_.halves = {first, first + initial.size()};
    if (held) write(*held);
  }
  if (fresh) write(initial), begun_ = initial;
}

void CommonState::count_skips() {
  if (!halves_.defined() || lag_.defined()) return;
  attach(0);
}

void CommonState::count_on_device(bool on) {
  if (!halves_.defined() || on == on_device_) return;
  memory_.steps = steps();
  lag_.reset();
  memory_.lag = nullptr;
  on_device_ = on;
  if (!on) return;
  ++memory_.steps;  // so that it is not 0, as that of a step that nothing has been counted of
  attach(1);
}

void CommonState::attach(std::int64_t lag) {
  lag_ = torch::full({}, lag, torch::dtype(torch::kInt64).device(halves_.device()));
  memory_.lag = reinterpret_cast<int64*>(lag_.data_ptr());
}

// The steps that were not skipped. From then on nobody counts those that are, until the next count_skips().
std::int64_t CommonState::steps() const {
  if (on_device_) return memory_.steps - lag_.item<std::int64_t>();
  if (lag_.defined()) memory_.steps -= std::exchange(lag_, {}).item<std::int64_t>();
  memory_.lag = nullptr;
  return memory_.steps;
}

void CommonState::restart() {
  begun_.clear();
  if (on_device_) {
    lag_.fill_(memory_.steps);
    return;
  }
  lag_.reset();
  memory_.lag = nullptr;
  memory_.steps = 0;
}

std::optional<std::vector<double>> CommonState::values() const {
  if (!halves_.defined()) return std::nullopt;
  const torch::Tensor now = halves_[steps() & 1].cpu();
  const double* const first = now.const_data_ptr<double>();
  return std::vector<double>(first, first + now.numel());
}

void CommonState::set(const std::vector<double>& values) {
  if (!halves_.defined()) bind(torch::kCPU, values);
  write(values);
  restart();
  given_ = true;
}

void CommonState::clear() {
  restart();
  given_ = false;
}

// Into both halves, so that it does not matter which is read next.
void CommonState::write(const std::vector<double>& values) { halves_.copy_(row_of(values)); }

}  // namespace jitstep
