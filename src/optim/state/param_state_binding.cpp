// Binds a state to a parameter: moves or converts its buffers to the formats of the parameter's kernel.
#include <torch/types.h>

#include <utility>

#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "jitstep/param_state.h"
#include "optim/state/param_state_data.h"
#include "optim/state/slots_by_name.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"
#include "optim/tensor/tensor_fingerprint.h"

namespace jitstep {
namespace {

// True if a kernel for tensor `a` can also use tensor `b` on the same device.
bool same_form(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && has_data(a) == has_data(b);
}

// Fingerprints of the parameter and of all its state buffers, in the order of for_each_tensor.
std::vector<TensorFingerprint> fingerprints_of(const torch::Tensor& p,
                                               const StateBuffers& buffers) {
  std::vector<TensorFingerprint> fingerprints = {TensorFingerprint(p)};
  buffers.for_each_tensor([&](const torch::Tensor& tensor) { fingerprints.emplace_back(tensor); });
  return fingerprints;
}

torch::Tensor on(const torch::Tensor& tensor, const torch::Device& device) {
  return tensor.defined() ? tensor.to(device) : tensor;
}

// Users have access to the tensors and may have given two of them the same storage.
void check_no_sharing(const StateBuffers& state, const torch::Tensor& p) {
  std::vector<const torch::Tensor*> tensors = {&p};
  state.for_each_tensor([&](const torch::Tensor& tensor) {
    if (!tensor.defined() || !has_data(tensor)) return;
    for (const torch::Tensor* const other : tensors)
      TORCH_CHECK(!share_memory(*other, tensor), "jitstep: two tensors of the state share memory, ",
                  "or one of them and the parameter. clone() one of them.");
    tensors.push_back(&tensor);
  });
}

}  // namespace

// Gaps, and strides of dimensions of size 1, do not change the order of elements.
bool ParamState::Data::same_layout(const torch::Tensor& p) const {
  if (p.sizes() != layout.sizes || p.scalar_type() != layout.dtype) return false;
  if (p.strides() == layout.strides) return true;
  return layout.strides.size() == layout.sizes.size() &&
         jit::is_dense({layout.sizes, jit::compact_strides({layout.sizes, layout.strides})},
                       jit::compact_strides(shape_of(p)));
}

bool ParamState::Data::fits(const torch::Tensor& p) const {
  auto fingerprint = fingerprints->begin();
  bool same = fingerprint++->same_metadata(p);
  buffers.for_each_tensor(
      [&](const torch::Tensor& t) { same = fingerprint++->same_storage(t) && same; });
  return same;
}

// The plan that describes the stored buffers. An archive has no flags, and no formats for slots that it lacks. The
// current flags and formats replace them.
std::shared_ptr<const jit::Plan> ParamState::Data::stored_plan(const StateBuffers& fresh) const {
  if (buffers.plan != nullptr) return buffers.plan;
  jit::KernelSpec spec = fresh.plan->spec;
  spec.state = buffers.format;
  spec.gradient = spec.state.dtype;
  const auto& slots = fresh.plan->rule().slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (const auto number = number_among(declared_slots(), slots[i]); number >= 0)
      if (auto& codec = spec.state.slots.at(static_cast<std::size_t>(number)); !codec)
        codec = fresh.format.slots[i];
  return as_torch_error([&] {
    return std::make_shared<jit::Plan>(
        jit::resolve(spec, rule_catalog ? *rule_catalog : *fresh.plan->catalog));
  });
}

// Decodes a stored slot with its old codec and its old storage order.
torch::Tensor ParamState::Data::decoded_values(std::size_t slot,
                                               std::shared_ptr<const jit::Plan> plan,
                                               const torch::Device& device) const {
  const jit::Shape shape{layout.sizes, layout.strides};
  const auto like = torch::empty_strided(layout.sizes, jit::compact_strides(shape),
                                         torch::TensorOptions(layout.dtype).device(device));
  StateBuffers old = state_outline(std::move(plan));
  old.t = buffers.t;
  old.initial = buffers.initial;
  old.slots[slot] = {on(buffers.slots[slot].codes, device), on(buffers.slots[slot].meta, device)};
  old.aux_state = make_aux_state(like, *old.plan, std::vector<double>(old.aux_state.size()));
  copy_aux_state(old);
  return decode_slot(old, like, static_cast<int>(slot));
}

// True if the stored codes of a slot are valid for `fresh`. `slot`: its number in `fresh`. The files of the codec and of
// the rule may have been reloaded since the codes were written.
bool ParamState::Data::same_codec(const StateBuffers& fresh, std::size_t slot) const {
  const jit::Slot& declared = fresh.plan->rule().slots[slot];
  const auto number = number_among(declared_slots(), declared);
  const auto index = static_cast<std::size_t>(number);
  const auto& stored = buffers.format.slots[index];
  const auto& target = fresh.format.slots[slot];
  return stored && target && jit::same_codes(*stored, *target, *fresh.plan->catalog) &&
         declared_slots()[index].is_signed == declared.is_signed &&
         (buffers.plan == nullptr || buffers.plan->codec(static_cast<int>(number)) ==
                                         fresh.plan->codec(static_cast<int>(slot)));
}

// Finds slots by name, because another version of the rule may have other slots or another order.
void ParamState::Data::convert_slot(StateBuffers& fresh, std::size_t slot,
                                    const torch::Tensor& p) const {
  const jit::Slot& declared = fresh.plan->rule().slots[slot];
  const auto number = number_among(declared_slots(), declared);
  if (number < 0) return;
  const auto from = static_cast<std::size_t>(number);
  const auto& stored = buffers.slots[from];
  auto& target = fresh.slots[slot];
  if (!stored.codes.defined() || !target.codes.defined()) return;
  if (fresh.t == 0 && !target.codes.is_floating_point())
    return;  // before step 1, codes are zeros whatever value the slot starts from
  if (holds_values(from)) {
    TORCH_CHECK(p.numel() == 0 || has_data(stored.codes), "jitstep: the storage of the slot ",
                declared.torch_name,
                " was freed. Set its values, or erase the state to start again.");
    if (declared_slots()[from].is_signed) check_sign(declared, stored.codes);
    if (same_form(stored.codes, target.codes) && stored.codes.device() == p.device())
      target.codes = stored.codes;
    else
      encode_slot(fresh, p, static_cast<int>(slot), stored.codes.to(p.device()));
  } else if (same_codec(fresh, slot) && same_layout(p) && same_form(stored.codes, target.codes) &&
             same_form(stored.meta, target.meta)) {
    target = {on(stored.codes, p.device()), on(stored.meta, p.device())};
  } else {
    const auto values = decoded_values(from, stored_plan(fresh), p.device());
    if (declared_slots()[from].is_signed) check_sign(declared, values);
    encode_slot(fresh, p, static_cast<int>(slot), values);
  }
}

// If the reference implementation has no step number, values that the user sets count as those of step 1.
void ParamState::Data::count_step_of_user_values() {
  if (manifest().no_step_number && step() == 0) step() = 1;
}

// Kernels apply initial values at step 1 only, so a slot that options add later must store its initial value. Before
// step 1 the stored values are only for users who read them.
void ParamState::Data::initialize_new_slots(StateBuffers& fresh, const torch::Tensor& p,
                                            const std::vector<double>& initial) const {
  const auto& slots = fresh.plan->rule().slots;
  for (std::size_t i = 0; i < fresh.slots.size(); ++i) {
    const torch::Tensor& codes = fresh.slots[i].codes;
    const bool has = has_codes(buffers, number_among(declared_slots(), slots[i]));
    if (!codes.defined()) continue;
    // Use a new tensor: the old one is needed for the rollback if a later operation fails.
    if (fresh.t == 0 && manifest().early_state && codes.is_floating_point())
      fresh.slots[i].codes = torch::full_like(codes, initial[i]);
    else if (fresh.t > 0 && !has && initial[i] != 0)
      encode_slot(fresh, p, static_cast<int>(i),
                  torch::full({}, initial[i], torch::kFloat64).expand(p.sizes()));
  }
}

// A copy for the rollback of a failed step. Only the optimizer has it, so the copy does not count as shared.
ParamState::Data ParamState::Data::snapshot() {
  const bool shared = escaped.is_set();
  Data copy(*this);
  if (is_bound()) copy.owner = StateOwner(owner.parameter);
  if (!shared) escaped = Escaped(), copy.escaped = Escaped();
  return copy;
}

void ParamState::Data::bind(const torch::Tensor& p, std::shared_ptr<const jit::Plan> plan, int id,
                            const InitialValues& initial) {
  const OwnOperations own;
  check_step();
  if (!has_id() && has_slots(buffers)) count_step_of_user_values();
  check_start(in_order_of(declared_slots(), plan->rule().slots, initial.slots));
  if (from_archive) check_shape(p);
  StateBuffers fresh = make_state(p, std::move(plan), id, initial.aux_state);
  // torch's SGD has no step number. Its first step with momentum fills the buffer.
  const bool restarts = manifest().no_step_number && buffers.aux_state.empty() &&
                        !has_slots(buffers) && has_slots(fresh);
  if (!restarts) fresh.t = buffers.t;
  fresh.first = buffers.first;
  fresh.whole = buffers.whole;
  fresh.revision = next_revision();
  fresh.hyper = initial.hyper;
  if (manifest().early_state) fresh.initial = initial.slots;
  check_complete(fresh);
  check_aux_state(fresh);
  if (from_archive) as_torch_error([&] { check_archived_aux_state(fresh); });
  copy_aux_state(fresh);  // before the slots: encoding a slot writes its codec's auxiliary state
  if (!buffers.slots.empty()) {
    TORCH_CHECK(buffers.slots.size() == declared_slots().size(), "jitstep: the state has ",
                buffers.slots.size(), " slots, but the rule ", rule, " has ",
                declared_slots().size(), ". Erase the state to start again.");
    for (std::size_t i = 0; i < fresh.slots.size(); ++i) convert_slot(fresh, i, p);
  }
  initialize_new_slots(fresh, p, initial.slots);
  convert_residual(fresh, p);
  if (escaped.is_set()) check_no_sharing(fresh, p);
  buffers = std::move(fresh);
  rule_catalog = buffers.plan->catalog;
  fingerprints = std::make_shared<std::vector<TensorFingerprint>>(fingerprints_of(p, buffers));
  layout = {p.sizes().vec(), p.strides().vec(), p.scalar_type(), p.device()};
  owner = StateOwner(p);
  from_archive = is_early = false;
}

}  // namespace jitstep
