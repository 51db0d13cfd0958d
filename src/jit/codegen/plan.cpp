#include "jitstep/jit/plan.h"

#include <algorithm>
#include <set>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/codegen/complete.h"
#include "jit/codegen/passes.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

std::string name_of(const KernelSpec& spec) {
  std::vector<std::string> codecs;
  for (const auto& choice : spec.state.slots) {
    if (choice) codecs.push_back(choice->name);
  }
  const bool same = std::set(codecs.begin(), codecs.end()).size() == 1;
  if (same) codecs.resize(1);
  std::string out = spec.rule;
  for (const auto& codec : codecs) out += "_" + codec;
  out += "_" + to_string(spec.state.dtype);
  if (spec.state.weights != "native") out += "_" + spec.state.weights;
  return out;
}

void find_manifests(Plan& plan) {
  const KernelSpec& spec = plan.spec;
  const Catalog& catalog = *plan.catalog;
  plan.components = {&catalog.gradient(), &catalog.rule(spec.rule)};
  for (const auto& choice : spec.state.slots)
    plan.components.push_back(choice ? &catalog.codec(choice->name) : nullptr);
  plan.weights = &catalog.weights(spec.state.weights);
}

bool is_active(const Plan& plan, int component, const AuxField& field) {
  return !field.condition || field.condition->holds(plan.flags(component));
}

// An initial value of a codec may name one of the codec's numbers. That is a constant, or one of the rule's numbers.
Initial initial_of(const Plan& plan, const AuxField& field, int component) {
  if (component < kFirstCodecComponent || field.initial.option.empty()) return field.initial;
  const Value& value = plan.flags(component).at(field.initial.option);
  Initial initial;
  if (value.is_choice())
    initial.option = value.choice();
  else
    initial.number = value.number();
  return initial;
}

ResolvedAuxState resolved(const Plan& plan, const AuxField& field, int component) {
  const std::size_t slot = static_cast<std::size_t>(component - kFirstCodecComponent);
  const std::string owner =
      component < kFirstCodecComponent ? "" : plan.rule().slots[slot].name + ".";
  const Dtype parameter = plan.spec.state.dtype;
  return {.component = component,
          .name = field.name,
          .torch_name = field.torch_name,
          .key = owner + field.name,
          .domain = field.domain,
          .bytes = field.is_double ? 8 : real_bytes(parameter),
          .is_double = field.is_double,
          .of_elements = field.of_elements,
          .initial = initial_of(plan, field, component)};
}

ResolvedAuxState resolved(const Plan& plan, const MatrixField& field) {
  return {.component = kRuleComponent,
          .name = field.name,
          .torch_name = field.torch_name,
          .key = field.name,
          .domain = {},
          .bytes = real_bytes(plan.spec.state.dtype),
          .is_double = real_bytes(plan.spec.state.dtype) == 8,
          .matrix =
              ResolvedAuxState::Sides{field.rows, field.columns, field.largest.value_or(Initial{}),
                                      field.largest.has_value()},
          .initial = field.initial};
}

// Numbers the fields. Fields per tensor come first, because their numbers index the tensor's buffers.
void number_aux_state(Plan& plan) {
  for (int component = 0; component < std::ssize(plan.components); ++component) {
    if (plan.components[component] == nullptr) continue;
    for (const AuxField& field : plan.components[component]->aux_state) {
      auto& fields = field.is_shared() ? plan.shared_state : plan.aux_state;
      if (is_active(plan, component, field)) fields.push_back(resolved(plan, field, component));
    }
  }
  for (const MatrixField& field : plan.rule().matrices)
    if (!field.condition || field.condition->holds(plan.flags(kRuleComponent)))
      plan.aux_state.push_back(resolved(plan, field));
  int number = 0;
  for (ResolvedAuxState& field : plan.aux_state) field.number = number++;
  for (ResolvedAuxState& field : plan.shared_state)
    field.number = number++, field.index = field.number - static_cast<int>(plan.aux_state.size());
}

// Whether the options have the kernel's flags, for the plan's sizes or, if these are unknown, for some. A kernel with
// the flag `scaled` accepts options with and without a scale.
bool has_flags_of(const OptionValues& options, const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  NamedValues gradient_flags = options.gradient_flags();
  if (spec.gradient_flags.at("scaled").boolean()) gradient_flags["scaled"] = true;
  if (gradient_flags != spec.gradient_flags) return false;
  if (!plan.sizes.empty()) return options.flags_for(plan.sizes) == spec.flags;
  for (int dims = 1; dims <= kMaxDims; ++dims)
    if (options.may_have_flags(spec.flags, dims)) return true;
  return false;
}

void check_field_count(const Plan& plan) {
  const std::size_t fields = plan.aux_state.size() + plan.shared_state.size();
  if (fields <= kMaxAuxFields) return;
  throw Error(str_cat(plan.spec.rule, " with these codecs has ", fields,
                      " fields of auxiliary state. At most ", kMaxAuxFields,
                      " are allowed. Choose another codec for some slots."));
}

}  // namespace

const NamedValues& Plan::flags(int component) const {
  if (component == kGradientComponent) return spec.gradient_flags;
  if (component == kRuleComponent) return spec.flags;
  return spec.state.slots[static_cast<std::size_t>(component - kFirstCodecComponent)]->options;
}

int Plan::section_of(int pass) const {
  const auto end = std::upper_bound(transform_passes.begin(), transform_passes.end(), pass);
  return static_cast<int>(end - transform_passes.begin());
}

int Plan::block(int slot) const {
  if (codec(slot) == nullptr) return 1;
  const NamedValues& options = flags(codec_component(slot));
  const auto found = options.find("block");
  return found == options.end() ? 1 : static_cast<int>(found->second.number());
}

HyperParams Plan::at_step(const OptionValues& options, std::int64_t t, std::uint64_t seed) const {
  options.validate();
  if (options.rule().source != rule().source || !has_flags_of(options, *this))
    throw Error(str_cat("the options (", options.rule().name, ": ", to_string(options.flags()),
                        ", ", to_string(options.gradient_flags()), ") are not those of the kernel ",
                        to_string(spec),
                        ". Call resolve() again, and create a new Step of that plan."));
  if (t < 1) throw Error(str_cat("the step number is ", t, ". Step numbers start at 1."));
  return options.at_step(t, seed);
}

Plan resolve(const KernelSpec& spec, const Catalog& catalog) {
  Plan plan;
  plan.catalog = catalog.snapshot();
  plan.spec = complete(spec, *plan.catalog);
  plan.name = name_of(plan.spec);
  find_manifests(plan);
  plan_reductions(plan, {});
  number_aux_state(plan);
  check_field_count(plan);
  return plan;
}

Plan resolve(const OptionValues& options, const CodecChoice& state) {
  options.validate();
  KernelSpec spec{.rule = options.rule().name,
                  .flags = options.flags(),
                  .gradient_flags = options.gradient_flags()};
  for (const Slot& slot : options.rule().slots)
    spec.state.slots.emplace_back(slot.codec.empty() ? state : CodecChoice{slot.codec});
  return resolve(spec, options.catalog());
}

}  // namespace jitstep::jit
