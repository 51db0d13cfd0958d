#include "jitstep/param_state.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <utility>

#include "jit/base/closest.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/options.h"
#include "optim/state/shipped_state.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

bool equal_values(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && torch::equal(a, b.to(a.options()));
}

}  // namespace

ParamState::ParamState(std::string rule, const jit::Catalog& catalog)
    : rule_(std::move(rule)), catalog_(catalog.snapshot()) {}

const jit::Catalog& ParamState::catalog() const {
  return catalog_ ? *catalog_ : jit::default_catalog();
}

const jit::Manifest& ParamState::manifest() const { return catalog().rule(rule_); }

const std::vector<jit::Slot>& ParamState::declared_slots() const { return manifest().slots; }

std::size_t ParamState::index(const std::string& name) const {
  const auto& slots = declared_slots();
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const jit::Slot& slot) {
    return slot.name == name || slot.torch_name == name;
  });
  if (found != slots.end()) return static_cast<std::size_t>(found - slots.begin());
  std::vector<std::string> names;
  for (const jit::Slot& slot : slots) names.insert(names.end(), {slot.name, slot.torch_name});
  TORCH_CHECK(
      false, "jitstep: ", rule_, " has no slot \"", name, "\"", jit::did_you_mean(name, names),
      ". Slots: ", slots.empty() ? "none" : jit::joined(slots, ", ", &jit::Slot::name), ".");
}

bool ParamState::holds_values(std::size_t slot) const {
  const auto& codec = buffers_.format.slots.at(slot);
  return codec && codec->name == "fp32";
}

torch::Tensor ParamState::slot_value(std::size_t slot) const {
  if (slot >= buffers_.slots.size()) return {};
  escaped_.set();
  if (is_bound() && same_layout(owner_.parameter))
    return decode_slot(buffers_, owner_.parameter, static_cast<int>(slot));
  const auto& codes = buffers_.slots[slot].codes;
  if (!codes.defined() || holds_values(slot)) return codes;
  TORCH_CHECK(buffers_.plan != nullptr, "jitstep: the slot ", declared_slots()[slot].name,
              " cannot be decoded: it is quantized, and its state is not bound to a parameter yet. "
              "Read it ",
              "after an optimizer has used the state.");
  return old_values(slot, buffers_.plan, codes.device());
}

void ParamState::set_slot_value(std::size_t slot, const torch::Tensor& values) {
  const OwnOperations own;
  check_sign(declared_slots().at(slot), values);
  buffers_.revision = next_revision();
  escaped_.set();
  // A parameter of another layout is another parameter.
  if (is_bound() && !same_layout(owner_.parameter)) owner_ = {};
  if (is_bound() && !values.defined()) {
    buffers_.slots.at(slot) = {};
    return;
  }
  if (is_bound()) {
    TORCH_CHECK(buffers_.format.slots.at(slot), "jitstep: the slot ", declared_slots()[slot].name,
                " does not exist under the optimizer's options. Change the options first.");
    const std::int64_t before = step();
    if (has_id()) count_given();  // encode_slot depends on the step number
    try {
      encode_slot(buffers_, owner_.parameter, static_cast<int>(slot), values);
    } catch (...) {
      step() = before;
      throw;
    }
    return;
  }
  if (has_id() && values.defined() && values.sizes() != layout_.sizes) resize(values.sizes());
  if (!catalog_) catalog_ = jit::default_catalog().snapshot();  // fixes the numbers of slots
  buffers_.slots.resize(declared_slots().size());
  buffers_.format.slots.resize(buffers_.slots.size());
  buffers_.slots[slot] = {values, {}};
  buffers_.format.slots[slot] = jit::CodecChoice{"fp32"};
  if (has_id() && values.defined()) count_given();
}

// Values of another shape belong to another parameter. Auxiliary state of codecs and the residual depend on the old
// shape and are dropped. Slots become unencoded values. The user must set all of them before an optimizer uses the
// state.
void ParamState::resize(torch::IntArrayRef sizes) {
  std::vector<StateBuffers::Slot> values;
  for (std::size_t i = 0; i < buffers_.slots.size(); ++i) values.push_back({slot_value(i), {}});
  buffers_.slots = std::move(values);
  for (auto& format : buffers_.format.slots)
    if (format) format = jit::CodecChoice{"fp32"};
  std::erase_if(buffers_.aux_state,
                [](const auto& field) { return field.key.find('.') != field.key.npos; });
  buffers_.residual.reset();
  layout_.sizes = sizes.vec();
  layout_.strides = torch::empty(sizes, torch::kMeta).strides().vec();
}

torch::Tensor ParamState::codes(const std::string& slot) const {
  escaped_.set();
  const std::size_t i = index(slot);
  return i < buffers_.slots.size() ? buffers_.slots[i].codes : torch::Tensor();
}

torch::Tensor ParamState::meta(const std::string& slot) const {
  escaped_.set();
  const std::size_t i = index(slot);
  return i < buffers_.slots.size() ? buffers_.slots[i].meta : torch::Tensor();
}

void ParamState::set_id(int id) {
  buffers_.id = id;
  buffers_.revision = next_revision();
}

std::unique_ptr<torch::optim::OptimizerParamState> ParamState::clone() const {
  return std::make_unique<ParamState>(*this);
}

bool ParamState::equals(const ParamState& other) const {
  if (rule_ != other.rule_ || step() != other.step()) return false;
  for (std::size_t i = 0; i < declared_slots().size(); ++i)
    if (!equal_values(slot_value(i), other.slot_value(i))) return false;
  return true;
}

std::unique_ptr<ParamState> make_param_state(const std::string& rule) {
  return make_param_state(rule, jit::default_catalog());
}

std::unique_ptr<ParamState> make_param_state(const std::string& rule, const jit::Catalog& catalog) {
  return is_shipped(rule) ? make_shipped_state(rule) : std::make_unique<ParamState>(rule, catalog);
}

}  // namespace jitstep
