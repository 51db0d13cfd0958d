// A state becomes that of a parameter: what it holds is moved or converted into the formats of the parameter's kernel.
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/state_layout.h"
#include "jitstep/param_state.h"
#include "optim/options/group_record.h"
#include "optim/state/slots_by_name.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"
#include "optim/tensor/tensor_fingerprint.h"

namespace jitstep {
namespace {

// What a kernel that was made for one may do with the other, once they are on one device.
bool same_form(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && has_data(a) == has_data(b);
}

// Of the parameter, then of all that is kept for it.
std::vector<TensorFingerprint> places_of(const torch::Tensor& p, const StateBuffers& buffers) {
  std::vector<TensorFingerprint> indices = {TensorFingerprint(p)};
  buffers.for_each_tensor([&](const torch::Tensor& tensor) { indices.emplace_back(tensor); });
  return indices;
}

torch::Tensor on(const torch::Tensor& tensor, const torch::Device& device) {
  return tensor.defined() ? tensor.to(device) : tensor;
}

// Users may have given one tensor the memory of another.
void check_apart(const StateBuffers& state, const torch::Tensor& p) {
  std::vector<const torch::Tensor*> tensors = {&p};
  state.for_each_tensor([&](const torch::Tensor& tensor) {
    if (!tensor.defined() || !has_data(tensor)) return;
    for (const torch::Tensor* const other : tensors)
      TORCH_CHECK(!share_memory(*other, tensor), "two tensors of the state share memory, or one ",
                  "and the parameter; give each its own: clone()");
    tensors.push_back(&tensor);
  });
}

// A rule would start anew, at a step in the midst, from what an archive has too little of.
void check_length(const StateBuffers& state, const std::string& key, std::int64_t entries) {
  for (const auto& field : state.aux_state)
    for (const torch::Tensor& half : field.buffers)
      TORCH_CHECK(field.key != key || state.t == 0 || half.numel() == entries, "the archive holds ",
                  half.numel(), " of the ", entries, " numbers \"", key,
                  "\"; it is damaged: save the optimizer again");
}

bool holds_memory(const StateBuffers& state, const std::string& key, std::int64_t entries) {
  return std::any_of(state.aux_state.begin(), state.aux_state.end(), [&](const auto& field) {
    return field.key == key && field.buffers[0].numel() == entries &&
           field.buffers[1].numel() == entries;
  });
}

// Whether options decide about a condition, and not the parameter's dimensions alone.
bool follows_options(const jit::Manifest& rule, const jit::Expression& condition) {
  const auto decides = [&](const jit::Option& option) {
    return condition.reads(option.name) &&
           (!option.lifted || follows_options(rule, *option.lifted));
  };
  return std::any_of(rule.hyper.begin(), rule.hyper.end(), decides) ||
         std::any_of(rule.flags.begin(), rule.flags.end(), decides);
}

// Memory that an option has added since the last step begins with the next one, as slots do.
bool is_optional(const jit::Manifest& rule, const std::string& field) {
  return std::any_of(rule.aux_state.begin(), rule.aux_state.end(), [&](const jit::AuxField& one) {
    return one.name == field && one.condition && follows_options(rule, *one.condition);
  });
}

}  // namespace

bool ParamState::same_layout(const torch::Tensor& p) const {
  return p.sizes() == layout_.sizes && p.strides() == layout_.strides &&
         p.scalar_type() == layout_.dtype;
}

bool ParamState::fits(const torch::Tensor& p) const {
  auto index = places_->begin();
  bool same = index++->same_metadata(p);
  buffers_.for_each_tensor(
      [&](const torch::Tensor& t) { same = index++->same_storage(t) && same; });
  return same;
}

// The kernel of what is held. An archive says no flags, and no format of slots it lacks: the current ones
// stand in.
std::shared_ptr<const jit::Plan> ParamState::held_plan(const StateBuffers& fresh) const {
  if (buffers_.plan != nullptr) return buffers_.plan;
  jit::KernelSpec spec = fresh.plan->spec;
  if (catalog_revision_ != 0) spec.catalog_revision = catalog_revision_;
  spec.state = buffers_.format;
  spec.gradient = spec.state.dtype;
  const auto& slots = fresh.plan->rule().slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (const auto held = number_among(declared_slots(), slots[i]); held >= 0)
      if (auto& codec = spec.state.slots.at(static_cast<std::size_t>(held)); !codec)
        codec = fresh.format.slots[i];
  return as_torch_error([&] { return std::make_shared<jit::Plan>(jit::resolve(spec)); });
}

// The values of a held slot as it was kept before: in its formats and in the order of its elements then.
torch::Tensor ParamState::old_values(std::size_t slot, std::shared_ptr<const jit::Plan> plan,
                                     const torch::Device& device) const {
  const jit::Shape shape{layout_.sizes, layout_.strides};
  const auto like = torch::empty_strided(layout_.sizes, jit::compact_strides(shape),
                                         torch::TensorOptions(layout_.dtype).device(device));
  StateBuffers old = state_outline(std::move(plan));
  old.t = buffers_.t;
  old.initial = buffers_.initial;
  old.slots[slot] = {on(buffers_.slots[slot].codes, device), on(buffers_.slots[slot].meta, device)};
  old.aux_state = make_aux_state(like, *old.plan, std::vector<double>(old.aux_state.size()));
  take_memory(old);
  return decode_slot(old, like, static_cast<int>(slot));
}

// Whether codes of a slot, by its number among the fresh ones, may stay as they are. A codec's file may have been
// loaded again since they were made, and the rule's.
bool ParamState::same_codec(const StateBuffers& fresh, std::size_t slot) const {
  const jit::Slot& declared = fresh.plan->rule().slots[slot];
  const auto number = number_among(declared_slots(), declared);
  const auto index = static_cast<std::size_t>(number);
  const auto& held = buffers_.format.slots[index];
  const auto& made = fresh.format.slots[slot];
  return held && made &&
         jit::same_codes(*held, *made, jit::default_catalog(), fresh.plan->spec.catalog_revision) &&
         declared_slots()[index].is_signed == declared.is_signed &&
         (buffers_.plan == nullptr || buffers_.plan->codec(static_cast<int>(number)) ==
                                          fresh.plan->codec(static_cast<int>(slot)));
}

// By name: a later version of the rule may have them in another order, more of them or fewer.
void ParamState::take_slot(StateBuffers& fresh, std::size_t slot, const torch::Tensor& p) const {
  const jit::Slot& declared = fresh.plan->rule().slots[slot];
  const auto number = number_among(declared_slots(), declared);
  if (number < 0) return;
  const auto from = static_cast<std::size_t>(number);
  const auto& held = buffers_.slots[from];
  auto& made = fresh.slots[slot];
  if (!held.codes.defined() || !made.codes.defined()) return;
  if (fresh.t == 0 && !made.codes.is_floating_point())
    return;  // which start from zeros whatever they stand for
  if (holds_values(from)) {
    TORCH_CHECK(p.numel() == 0 || has_data(held.codes), "the slot ", declared.torch_name,
                " has no memory; set its values, or erase the state to start again");
    if (declared_slots()[from].is_signed) check_sign(declared, held.codes);
    if (same_form(held.codes, made.codes) && held.codes.device() == p.device())
      made.codes = held.codes;
    else
      encode_slot(fresh, p, static_cast<int>(slot), held.codes.to(p.device()));
  } else if (same_codec(fresh, slot) && same_layout(p) && same_form(held.codes, made.codes) &&
             same_form(held.meta, made.meta)) {
    made = {on(held.codes, p.device()), on(held.meta, p.device())};
  } else {
    const auto values = old_values(from, held_plan(fresh), p.device());
    if (declared_slots()[from].is_signed) check_sign(declared, values);
    encode_slot(fresh, p, static_cast<int>(slot), values);
  }
}

// Where the original keeps no step number, a slot that was set is one that it goes on from.
void ParamState::count_given() {
  if (manifest().no_step_number && step() == 0) step() = 1;
}

void ParamState::check_unharmed() const {
  TORCH_CHECK(guard_.is_intact(), "jitstep: the state of ", rule_,
              " was written to through a cast to a state class of torch's, such as ",
              "static_cast<torch::optim::AdamParamState&>, which it is not; cast it to jitstep's ",
              "class of the rule, or call step() and set_value() of jitstep::ParamState");
}

void ParamState::check_step() const {
  const std::int64_t t = buffers_.t.counted();  // of steps that were skipped one need not know
  TORCH_CHECK(t >= 0 && t < std::numeric_limits<std::int64_t>::max(), "step is ", t,
              " and must be the number of steps taken, 0 or more");
}

// Kernels take step 0 to be the start and do not read what the slots hold: they must hold what they start
// from, as in torch's Adagrad, or be as our own are until the first step that is not skipped. Those that nobody was
// given since they were made do; to look would wait for the device.
void ParamState::check_start(const std::vector<double>& initial) const {
  if (step() > 0 || (is_early_ && is_bound() && !is_shared())) return;
  for (std::size_t i = 0; i < buffers_.slots.size(); ++i) {
    const auto& codes = buffers_.slots[i].codes;
    if (!codes.defined()) continue;
    const auto hold = [&](double value) { return !codes.ne(value).any().item<bool>(); };
    const double start = holds_values(i) ? initial.at(i) : 0;
    // An archive does not say what a slot began with before its rule's option was changed.
    const auto one_value = [&] {
      return from_archive_ && manifest().early_state && codes.numel() > 0 &&
             hold(codes.flatten()[0].item<double>());
    };
    const auto as_made = [&] {
      return hold(0) || (i < buffers_.initial.size() && hold(buffers_.initial[i])) || one_value();
    };
    TORCH_CHECK(hold(start) || (has_id() && as_made()), "the slot ", declared_slots()[i].torch_name,
                " holds values at step 0, where it starts from ", start,
                "; set step() to 1 or more to go on from them, or erase the state");
  }
}

// Before anything is made of the sizes that an archive says.
void ParamState::check_shape(const torch::Tensor& p) const {
  TORCH_CHECK(p.sizes() == layout_.sizes && layout_.strides.size() == layout_.sizes.size(),
              "the archive holds the state of a parameter of shape ", layout_.sizes,
              " and strides ", layout_.strides, ", not of ", p.sizes(),
              "; load it for the parameters it is of");
}

void ParamState::check_complete(const StateBuffers& fresh) const {
  const auto& slots = fresh.plan->rule().slots;
  for (std::size_t i = 0; step() > 0 && i < fresh.slots.size(); ++i) {
    const auto number = number_among(declared_slots(), slots[i]);
    if (number < 0) continue;  // that version of the rule had none
    const bool held = has_codes(buffers_, number);
    TORCH_CHECK(held || !fresh.slots[i].codes.defined() || slots[i].condition,
                "the state after step ", step(), " lacks the slot ", slots[i].torch_name,
                "; set it, or leave the whole state out to start again");
  }
}

// A slot whose codec keeps its values in memory would be zeros without it, and a rule would start anew at a step in the
// midst, which no archive may do by a name.
void ParamState::check_archived_memory(const StateBuffers& fresh) const {
  const auto plan = held_plan(fresh);
  const jit::StateLayout layout = jit::state_layout(*plan, {layout_.sizes, layout_.strides},
                                                    std::vector<double>(plan->aux_state.size()));
  const auto& slots = declared_slots();
  for (std::size_t i = 0; i < plan->aux_state.size(); ++i) {
    const std::string& key = plan->aux_state[i].key;
    const bool is_rules = plan->aux_state[i].component == jit::kRuleComponent;
    check_length(buffers_, key, layout.aux_state[i].entries);
    if (holds_memory(buffers_, key, layout.aux_state[i].entries)) continue;
    const auto of_slot = [&](const jit::Slot& slot) { return key.starts_with(slot.name + "."); };
    const auto slot = std::find_if(slots.begin(), slots.end(), of_slot);
    const bool none = is_rules ? step() == 0 || is_optional(plan->rule(), key)
                               : !has_codes(buffers_, slot - slots.begin());
    TORCH_CHECK(none, "the archive does not hold the ", layout.aux_state[i].entries, " numbers \"",
                key, "\" that ", is_rules ? "the rule " : "the codec of the slot ",
                is_rules ? rule_ : slot->torch_name,
                " keeps; it is damaged: save the optimizer again");
  }
}

// Kernels read what a slot begins with at step 1 only; one that options add later must hold it. Before that step
// values are for those who look.
void ParamState::start_slots(StateBuffers& fresh, const torch::Tensor& p,
                             const std::vector<double>& initial) const {
  const auto& slots = fresh.plan->rule().slots;
  for (std::size_t i = 0; i < fresh.slots.size(); ++i) {
    const torch::Tensor& codes = fresh.slots[i].codes;
    const bool held = has_codes(buffers_, number_among(declared_slots(), slots[i]));
    if (!codes.defined()) continue;
    // In a tensor of its own: the one before may be needed again, if what follows fails.
    if (fresh.t == 0 && manifest().early_state && codes.is_floating_point())
      fresh.slots[i].codes = torch::full_like(codes, initial[i]);
    else if (fresh.t > 0 && !held && initial[i] != 0)
      encode_slot(fresh, p, static_cast<int>(i),
                  torch::full({}, initial[i], torch::kFloat64).expand(p.sizes()));
  }
}

// To be put back where a step fails, by an optimizer that shows it to nobody: taking it does not share the tensors.
ParamState ParamState::snapshot() {
  const bool shared = is_shared();
  ParamState taken(*this);
  if (is_bound()) taken.owner_ = StateOwner(owner_.parameter);
  if (!shared) escaped_ = Escaped(), taken.escaped_ = Escaped();
  return taken;
}

void ParamState::bind(const torch::Tensor& p, std::shared_ptr<const jit::Plan> plan, int id,
                      const InitialValues& initial) {
  const OwnOperations own;
  check_unharmed();
  check_step();
  if (!has_id() && has_slots(buffers_)) count_given();
  check_start(in_order_of(declared_slots(), plan->rule().slots, initial.slots));
  if (from_archive_) check_shape(p);
  StateBuffers fresh = make_state(p, std::move(plan), id, initial.aux_state);
  // Steps taken without slots say nothing about those there are now, which begin with their first.
  if (has_slots(buffers_) || !has_slots(fresh)) fresh.t = buffers_.t;
  fresh.revision = next_revision();
  fresh.hyper = initial.hyper;
  if (manifest().early_state) fresh.initial = initial.slots;
  check_complete(fresh);
  check_aux_state(fresh);
  if (from_archive_) rethrow_as_torch_error([&] { check_archived_memory(fresh); });
  take_memory(fresh);  // before slots, whose codecs' memory is made with their codes
  if (!buffers_.slots.empty()) {
    TORCH_CHECK(buffers_.slots.size() == declared_slots().size(), "state with ",
                buffers_.slots.size(), " slots for the rule ", rule_, ", which has ",
                declared_slots().size());
    for (std::size_t i = 0; i < fresh.slots.size(); ++i) take_slot(fresh, i, p);
  }
  start_slots(fresh, p, initial.slots);
  take_extra(fresh, p);
  if (is_shared()) check_apart(fresh, p);
  buffers_ = std::move(fresh);
  catalog_revision_ = buffers_.plan->spec.catalog_revision;
  places_ = std::make_shared<std::vector<TensorFingerprint>>(places_of(p, buffers_));
  layout_ = {p.sizes().vec(), p.strides().vec(), p.scalar_type(), p.device()};
  owner_ = StateOwner(p);
  from_archive_ = is_early_ = false;
}

}  // namespace jitstep
