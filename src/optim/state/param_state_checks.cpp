// What must hold for a state before it is bound to a parameter. Users and archives may have made it.
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "jitstep/param_state.h"
#include "optim/state/param_state_data.h"
#include "optim/state/slots_by_name.h"

namespace jitstep {
namespace {

// With too few values, the rule would restart from initial values in the middle of training.
void check_length(const StateBuffers& state, const std::string& key, std::int64_t entries) {
  for (const auto& field : state.aux_state)
    for (const torch::Tensor& half : field.buffers)
      TORCH_CHECK(field.key != key || state.t == 0 || half.numel() == entries,
                  "jitstep: the checkpoint is damaged: it has ", half.numel(), " of the ", entries,
                  " values of the auxiliary state \"", key, "\". Save the optimizer again.");
}

// The number of values of a field in these buffers. The largest side of matrices follows an option.
std::optional<std::int64_t> entries_of(const StateBuffers& state, const std::string& key) {
  for (const auto& field : state.aux_state)
    if (field.key == key) return field.buffers[0].numel();
  return {};
}

bool has_aux_values(const StateBuffers& state, const std::string& key, std::int64_t entries) {
  return std::any_of(state.aux_state.begin(), state.aux_state.end(), [&](const auto& field) {
    return field.key == key && field.buffers[0].numel() == entries &&
           field.buffers[1].numel() == entries;
  });
}

// True if the condition reads an option, directly or through a lifted flag. Otherwise it depends on the parameter's
// dimensions only.
bool follows_options(const jit::Manifest& rule, const jit::Expression& condition) {
  const auto decides = [&](const jit::Option& option) {
    return condition.reads(option.name) &&
           (!option.lifted || follows_options(rule, *option.lifted));
  };
  return std::any_of(rule.hyper.begin(), rule.hyper.end(), decides) ||
         std::any_of(rule.flags.begin(), rule.flags.end(), decides);
}

// True for auxiliary state that an option can add later. Like a slot, it then starts in the next step.
bool is_optional(const jit::Manifest& rule, const std::string& field) {
  for (const jit::MatrixField& one : rule.matrices)
    if (one.name == field) return one.condition && follows_options(rule, *one.condition);
  return std::any_of(rule.aux_state.begin(), rule.aux_state.end(), [&](const jit::AuxField& one) {
    return one.name == field && one.condition && follows_options(rule, *one.condition);
  });
}

}  // namespace

void check_intact(const ParamState& state) {
  TORCH_CHECK(state.is_intact(), "jitstep: the state of ", state.rule(),
              " was overwritten through a wrong cast to a state class of torch, such as ",
              "static_cast<torch::optim::AdamParamState&>. Cast it to jitstep's state class, or ",
              "call step() and set_value() of jitstep::ParamState.");
}

void ParamState::Data::check_step() const {
  const std::int64_t t = buffers.t.counted();  // does not wait for the device
  TORCH_CHECK(t >= 0 && t < std::numeric_limits<std::int64_t>::max(),
              "jitstep: invalid state: step is ", t,
              ". Set it to the number of steps taken, 0 or more.");
}

// At step 0 kernels do not read the slots. So the slots must have the rule's initial values, as in torch's Adagrad, or
// the zeros of new state. State that the user never had access to is valid. It is not checked, because reading the
// values would wait for the device.
void ParamState::Data::check_start(const std::vector<double>& initial) const {
  if (step() > 0 || (is_early && is_bound() && !escaped.is_set())) return;
  for (std::size_t i = 0; i < buffers.slots.size(); ++i) {
    const auto& codes = buffers.slots[i].codes;
    if (!codes.defined()) continue;
    const auto hold = [&](double value) { return !codes.ne(value).any().item<bool>(); };
    const double start = holds_values(i) ? initial.at(i) : 0;
    // The option for the initial value may have changed since, and an archive does not have the old initial value. Any
    // single value is therefore accepted.
    const auto one_value = [&] {
      return from_archive && manifest().early_state && codes.numel() > 0 &&
             hold(codes.flatten()[0].item<double>());
    };
    const auto as_made = [&] {
      return hold(0) || (i < buffers.initial.size() && hold(buffers.initial[i])) || one_value();
    };
    TORCH_CHECK(hold(start) || (has_id() && as_made()), "jitstep: the slot ",
                declared_slots()[i].torch_name, " has values, but its step number is 0, and the ",
                "first step starts from ", start,
                ". Set step() to 1 or more to continue from these values, or erase the state.");
  }
}

// Checks an archive's sizes before anything is allocated by them.
void ParamState::Data::check_shape(const torch::Tensor& p) const {
  TORCH_CHECK(p.sizes() == layout.sizes && layout.strides.size() == layout.sizes.size(),
              "jitstep: the checkpoint has state for a parameter of shape ",
              torch::IntArrayRef(layout.sizes), " and strides ", torch::IntArrayRef(layout.strides),
              ", not of shape ", p.sizes(),
              ". Load it into an optimizer with the parameters that it was saved with.");
}

void ParamState::Data::check_complete(const StateBuffers& fresh) const {
  const auto& slots = fresh.plan->rule().slots;
  for (std::size_t i = 0; step() > 0 && i < fresh.slots.size(); ++i) {
    const auto number = number_among(declared_slots(), slots[i]);
    if (number < 0) continue;  // the version of the rule that made the state has no such slot
    const bool has = has_codes(buffers, number);
    TORCH_CHECK(has || !fresh.slots[i].codes.defined() || slots[i].condition,
                "jitstep: the state after step ", step(), " lacks the slot ", slots[i].torch_name,
                ". Set it, or erase the whole state to start again.");
  }
}

// Without a codec's auxiliary state its slot would decode to zeros. Without the rule's own, the rule would restart in
// the middle of training. An archive with a missing or misspelled name must not cause that.
void ParamState::Data::check_archived_aux_state(const StateBuffers& fresh) const {
  const auto plan = stored_plan(fresh);
  const jit::StateLayout expected = jit::state_layout(*plan, {layout.sizes, layout.strides},
                                                      std::vector<double>(plan->aux_state.size()));
  const auto& slots = declared_slots();
  for (std::size_t i = 0; i < plan->aux_state.size(); ++i) {
    const std::string& key = plan->aux_state[i].key;
    std::int64_t entries = expected.aux_state[i].entries;
    if (plan->aux_state[i].matrix) entries = entries_of(fresh, key).value_or(entries);
    const bool is_rules = plan->aux_state[i].component == jit::kRuleComponent;
    check_length(buffers, key, entries);
    if (entries == 0 || has_aux_values(buffers, key, entries)) continue;
    const auto of_slot = [&](const jit::Slot& slot) { return key.starts_with(slot.name + "."); };
    const auto slot = std::find_if(slots.begin(), slots.end(), of_slot);
    const bool none = is_rules ? step() == 0 || is_optional(plan->rule(), key)
                               : !has_codes(buffers, slot - slots.begin());
    TORCH_CHECK(none, "jitstep: the checkpoint is damaged: it lacks the ", entries,
                " values of the auxiliary state \"", key, "\" of the ",
                is_rules ? "rule " : "codec of the slot ", is_rules ? rule : slot->torch_name,
                ". Save the optimizer again.");
  }
}

}  // namespace jitstep
