#include "jitstep/param_state.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <utility>

#include "jit/base/closest.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/options.h"
#include "optim/options/shipped_rules.h"
#include "optim/state/param_state_data.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

bool equal_values(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && torch::equal(a, b.to(a.options()));
}

}  // namespace

// Assignments keep the address of the data, which optimizers store.
ParamState::ParamState(std::string rule) : data_(new Data{std::move(rule)}) {}
ParamState::ParamState(std::string rule, const jit::Catalog& catalog)
    : data_(new Data{std::move(rule), catalog.snapshot()}) {}
ParamState::ParamState(const ParamState& other)
    : OptimizerParamState(other), guard_(other.guard_), data_(new Data(*other.data_)) {}
ParamState::ParamState(ParamState&& other)
    : OptimizerParamState(other), guard_(other.guard_), data_(new Data(std::move(*other.data_))) {}
ParamState& ParamState::operator=(const ParamState& other) {
  guard_ = other.guard_, *data_ = *other.data_;
  return *this;
}
ParamState& ParamState::operator=(ParamState&& other) {
  guard_ = other.guard_, *data_ = std::move(*other.data_);
  return *this;
}
ParamState::~ParamState() = default;

const std::string& ParamState::rule() const { return data_->rule; }
const std::int64_t& ParamState::step() const { return data_->step(); }
std::int64_t& ParamState::step() { return data_->step(); }
int ParamState::id() const { return data_->buffers.id; }
std::int64_t ParamState::bytes() const { return data_->buffers.bytes(); }

torch::Tensor ParamState::value(const std::string& slot) const {
  return data_->slot_value(data_->index(slot));
}
void ParamState::set_value(const std::string& slot, const torch::Tensor& values) {
  data_->set_slot_value(data_->index(slot), values);
}
torch::Tensor ParamState::slot_value(std::size_t slot) const { return data_->slot_value(slot); }
void ParamState::set_slot_value(std::size_t slot, const torch::Tensor& values) {
  data_->set_slot_value(slot, values);
}

const jit::Catalog& ParamState::Data::catalog() const {
  return rule_catalog ? *rule_catalog : jit::default_catalog();
}

const jit::Manifest& ParamState::Data::manifest() const { return catalog().rule(rule); }

const std::vector<jit::Slot>& ParamState::Data::declared_slots() const { return manifest().slots; }

std::size_t ParamState::Data::index(const std::string& name) const {
  const auto& slots = declared_slots();
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const jit::Slot& slot) {
    return slot.name == name || slot.torch_name == name;
  });
  if (found != slots.end()) return static_cast<std::size_t>(found - slots.begin());
  std::vector<std::string> names;
  for (const jit::Slot& slot : slots) names.insert(names.end(), {slot.name, slot.torch_name});
  TORCH_CHECK(
      false, "jitstep: ", rule, " has no slot \"", name, "\"", jit::did_you_mean(name, names),
      ". Slots: ", slots.empty() ? "none" : jit::joined(slots, ", ", &jit::Slot::name), ".");
}

bool ParamState::Data::holds_values(std::size_t slot) const {
  const auto& codec = buffers.format.slots.at(slot);
  return codec && codec->name == "fp32";
}

torch::Tensor ParamState::Data::slot_value(std::size_t slot) const {
  if (slot >= buffers.slots.size()) return {};
  escaped.set();
  if (is_bound() && same_layout(owner.parameter))
    return decode_slot(buffers, owner.parameter, static_cast<int>(slot));
  const auto& codes = buffers.slots[slot].codes;
  if (!codes.defined() || holds_values(slot)) return codes;
  TORCH_CHECK(buffers.plan != nullptr, "jitstep: the slot ", declared_slots()[slot].torch_name,
              " cannot be decoded: it is quantized, and its state is not bound to a parameter yet. "
              "Read it ",
              "after an optimizer has used the state.");
  return decoded_values(slot, buffers.plan, codes.device());
}

void ParamState::Data::set_slot_value(std::size_t slot, const torch::Tensor& values) {
  const OwnOperations own;
  check_sign(declared_slots().at(slot), values);
  buffers.revision = next_revision();
  escaped.set();
  // A parameter of another layout is another parameter.
  if (is_bound() && !same_layout(owner.parameter)) owner = {};
  if (is_bound() && !values.defined()) {
    buffers.slots.at(slot) = {};
    return;
  }
  if (is_bound()) {
    TORCH_CHECK(buffers.format.slots.at(slot), "jitstep: the slot ",
                declared_slots()[slot].torch_name,
                " does not exist under the optimizer's options. Change the options first.");
    const std::int64_t before = step();
    if (has_id()) count_step_of_user_values();  // encode_slot depends on the step number
    try {
      encode_slot(buffers, owner.parameter, static_cast<int>(slot), values);
    } catch (...) {
      step() = before;
      throw;
    }
    return;
  }
  if (has_id() && values.defined() && values.sizes() != layout.sizes) resize(values.sizes());
  if (!rule_catalog)
    rule_catalog = jit::default_catalog().snapshot();  // fixes the numbers of slots
  buffers.slots.resize(declared_slots().size());
  buffers.format.slots.resize(buffers.slots.size());
  buffers.slots[slot] = {values, {}};
  buffers.format.slots[slot] = jit::CodecChoice{"fp32"};
  if (has_id() && values.defined()) count_step_of_user_values();
}

// Values of another shape belong to another parameter. Auxiliary state of codecs and the residual depend on the old
// shape and are dropped. Slots become unencoded values. The user must set all of them before an optimizer uses the
// state.
void ParamState::Data::resize(torch::IntArrayRef sizes) {
  std::vector<StateBuffers::Slot> values;
  for (std::size_t i = 0; i < buffers.slots.size(); ++i) values.push_back({slot_value(i), {}});
  buffers.slots = std::move(values);
  for (auto& format : buffers.format.slots)
    if (format) format = jit::CodecChoice{"fp32"};
  std::erase_if(buffers.aux_state,
                [](const auto& field) { return field.key.find('.') != field.key.npos; });
  buffers.residual.reset();
  layout.sizes = sizes.vec();
  layout.strides = torch::empty(sizes, torch::kMeta).strides().vec();
}

torch::Tensor ParamState::codes(const std::string& slot) const {
  data_->escaped.set();
  const std::size_t i = data_->index(slot);
  return i < data_->buffers.slots.size() ? data_->buffers.slots[i].codes : torch::Tensor();
}

torch::Tensor ParamState::meta(const std::string& slot) const {
  data_->escaped.set();
  const std::size_t i = data_->index(slot);
  return i < data_->buffers.slots.size() ? data_->buffers.slots[i].meta : torch::Tensor();
}

std::unique_ptr<torch::optim::OptimizerParamState> ParamState::clone() const {
  return std::make_unique<ParamState>(*this);
}

bool ParamState::equals(const ParamState& other) const {
  if (data_->rule != other.data_->rule || step() != other.step()) return false;
  for (std::size_t i = 0; i < data_->declared_slots().size(); ++i)
    if (!equal_values(data_->slot_value(i), other.slot_value(i))) return false;
  return true;
}

std::unique_ptr<ParamState> make_param_state(const std::string& rule, const jit::Catalog& catalog) {
  const ShippedRule* const shipped = shipped_rule(rule, catalog);
  return shipped != nullptr ? shipped->make_state() : std::make_unique<ParamState>(rule, catalog);
}

}  // namespace jitstep
