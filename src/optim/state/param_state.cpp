#include "jitstep/param_state.h"

#include <torch/torch.h>

#include <atomic>
#include <limits>
#include <utility>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/formats.h"
#include "jitstep/jit/plan.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

const std::vector<jit::Slot>& slots_of(const std::string& rule) {
  return jit::default_catalog().rule(rule).slots;
}

bool same_geometry(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

bool same_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || a.nbytes() == b.nbytes());
}

torch::Tensor on(const torch::Tensor& tensor, const torch::Device& device) {
  return tensor.defined() ? tensor.to(device) : tensor;
}

bool equal_values(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && torch::equal(a, b.to(a.options()));
}

// Never the same twice, as a new state may lie where an old one was.
int next_revision() {
  static std::atomic<int> last{0};
  return ++last;
}

}  // namespace

std::size_t ParamState::place(const std::string& slot) const {
  const auto& slots = slots_of(rule_);
  std::string known;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == slot || slots[i].torch_name == slot) return i;
    known += (i == 0 ? "" : ", ") + slots[i].name;
  }
  TORCH_CHECK(false, rule_, " has no slot \"", slot, "\"; it has ", known.empty() ? "none" : known);
}

bool ParamState::holds_values(std::size_t slot) const {
  const auto& codec = buffers_.spec.slots.at(slot);
  return codec && codec->name == "fp32";
}

torch::Tensor ParamState::slot_value(std::size_t slot) const {
  if (slot >= buffers_.slots.size()) return {};
  if (is_bound()) return decode_slot(buffers_, parameter_, static_cast<int>(slot));
  const auto& codes = buffers_.slots[slot].codes;
  TORCH_CHECK(
      !codes.defined() || holds_values(slot), "the slot ", slots_of(rule_)[slot].name,
      " is quantised and not bound to a parameter yet; read it after the optimizer took it");
  return codes;
}

void ParamState::set_slot_value(std::size_t slot, const torch::Tensor& values) {
  torch::NoGradGuard no_grad;
  buffers_.revision = next_revision();
  if (is_bound() && values.defined()) {
    TORCH_CHECK(buffers_.slots.at(slot).codes.defined(), "the slot ", slots_of(rule_)[slot].name,
                " is left out under the optimizer's options; change them first");
    encode_slot(buffers_, parameter_, static_cast<int>(slot), values);
    return;
  }
  buffers_.slots.resize(slots_of(rule_).size());
  buffers_.spec.slots.resize(buffers_.slots.size());
  buffers_.slots[slot] = {values, {}};
  buffers_.spec.slots[slot] = jit::CodecChoice{"fp32"};
}

torch::Tensor ParamState::codes(const std::string& slot) const {
  const std::size_t i = place(slot);
  return i < buffers_.slots.size() ? buffers_.slots[i].codes : torch::Tensor();
}

torch::Tensor ParamState::meta(const std::string& slot) const {
  const std::size_t i = place(slot);
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
  for (std::size_t i = 0; i < slots_of(rule_).size(); ++i)
    if (!equal_values(slot_value(i), other.slot_value(i))) return false;
  return true;
}

// ---- binding ---------------------------------------------------------------------------------

bool ParamState::same_layout(const torch::Tensor& p) const {
  return p.sizes() == layout_.sizes && p.strides() == layout_.strides &&
         p.scalar_type() == layout_.dtype;
}

bool ParamState::fits(const torch::Tensor& p) const {
  return same_layout(p) && p.device() == layout_.device;
}

torch::Tensor ParamState::old_values(std::size_t slot, const StateBuffers& fresh,
                                     const torch::Device& device) const {
  const auto like = torch::empty_strided(layout_.sizes, layout_.strides,
                                         torch::TensorOptions(layout_.dtype).device(device));
  jit::KernelSpec spec = fresh.spec;
  spec.parameter = spec.gradient = buffers_.spec.parameter;
  spec.weights = buffers_.spec.weights;
  spec.slots.at(slot) = buffers_.spec.slots.at(slot);
  const std::vector<double> no_memory(jit::resolve(spec).memory.size());
  StateBuffers old = make_state(like, spec, buffers_.id, no_memory);
  old.t = buffers_.t;
  const auto& held = buffers_.slots[slot];
  TORCH_CHECK(
      same_bytes(held.codes, old.slots[slot].codes) && same_bytes(held.meta, old.slots[slot].meta),
      "the state of the slot ", slots_of(rule_)[slot].name,
      " does not have the size its codec says; the archive is damaged");
  old.slots[slot] = {on(held.codes, device), on(held.meta, device)};
  return decode_slot(old, like, static_cast<int>(slot));
}

void ParamState::take_slot(StateBuffers& fresh, std::size_t slot, const torch::Tensor& p) const {
  const auto& held = buffers_.slots[slot];
  auto& made = fresh.slots[slot];
  if (!held.codes.defined() || !made.codes.defined()) return;
  if (holds_values(slot)) {
    if (same_geometry(held.codes, made.codes))
      made.codes = held.codes;
    else
      encode_slot(fresh, p, static_cast<int>(slot), held.codes.to(p.device()));
  } else if (buffers_.spec.slots[slot] == fresh.spec.slots[slot] && same_layout(p) &&
             same_bytes(held.codes, made.codes) && same_bytes(held.meta, made.meta)) {
    made = {on(held.codes, p.device()), on(held.meta, p.device())};
  } else {
    encode_slot(fresh, p, static_cast<int>(slot), old_values(slot, fresh, p.device()));
  }
}

void ParamState::take_rest(StateBuffers& fresh, const torch::Tensor& p) const {
  const bool same_memory = buffers_.memory.size() == fresh.memory.size();
  for (std::size_t i = 0; same_memory && i < fresh.memory.size(); ++i) {
    for (int half = 0; half < 2; ++half) {
      const auto& held = buffers_.memory[i][half];
      if (held.sizes() == fresh.memory[i][half].sizes()) fresh.memory[i][half].copy_(held);
    }
  }
  if (buffers_.spec.weights == fresh.spec.weights && same_layout(p) &&
      same_bytes(buffers_.extra, fresh.extra))
    fresh.extra = on(buffers_.extra, p.device());
}

void ParamState::check_step() const {
  const std::int64_t t = step();
  TORCH_CHECK(t >= 0 && t < std::numeric_limits<std::int64_t>::max(), "step is ", t,
              " and must be the number of steps taken, 0 or more");
  if (t > 0) return;
  for (std::size_t i = 0; i < buffers_.slots.size(); ++i) {
    const auto& codes = buffers_.slots[i].codes;
    TORCH_CHECK(!codes.defined() || !codes.any().item<bool>(), "the slot ",
                slots_of(rule_)[i].torch_name, " holds values at step 0, where it starts from ",
                "nothing; set step() to 1 or more to go on from them, or erase the state");
  }
}

void ParamState::check_complete(const StateBuffers& fresh) const {
  const auto& slots = slots_of(rule_);
  for (std::size_t i = 0; step() > 0 && i < fresh.slots.size(); ++i) {
    const bool held = i < buffers_.slots.size() && buffers_.slots[i].codes.defined();
    TORCH_CHECK(held || !fresh.slots[i].codes.defined() || slots[i].condition,
                "the state after step ", step(), " lacks the slot ", slots[i].torch_name,
                "; set it, or leave the whole state out to start anew");
  }
}

void ParamState::bind(const torch::Tensor& p, const jit::KernelSpec& spec, int id,
                      const std::vector<double>& initial_memory) {
  torch::NoGradGuard no_grad;
  check_step();
  const bool has_id = is_bound() || from_archive_;
  StateBuffers fresh = make_state(p, spec, has_id ? buffers_.id : id, initial_memory);
  fresh.t = buffers_.t;
  fresh.revision = next_revision();
  check_complete(fresh);
  if (!buffers_.slots.empty()) {
    TORCH_CHECK(buffers_.slots.size() == fresh.slots.size(), "state with ", buffers_.slots.size(),
                " slots for the rule ", rule_, ", which has ", fresh.slots.size());
    for (std::size_t i = 0; i < fresh.slots.size(); ++i) take_slot(fresh, i, p);
  }
  if (has_id) take_rest(fresh, p);
  buffers_ = std::move(fresh);
  layout_ = {p.sizes().vec(), p.strides().vec(), p.scalar_type(), p.device()};
  parameter_ = p;
  from_archive_ = false;
}

}  // namespace jitstep
