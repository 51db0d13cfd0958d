#include "jit/codegen/contract.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jit/codegen/translation_unit.h"

namespace jitstep::jit {
namespace {

std::string assertion(const std::string& requested, const std::string& who,
                      const std::string& needed) {
  return str_cat("static_assert(", requested, ", \"", who, " needs '", needed, "'\");\n");
}

// A struct with all slots, as members of any type. A slot after a host transform has another type. Names of slots and
// reductions cannot begin with `jitstep`, so they differ from the parameters of templates.
std::string slots_view(const Manifest& rule) {
  std::string fields;
  for (const Slot& slot : rule.slots)
    fields += str_cat(slot.section > 0 ? "  jitstep_AfterTransform " : "  jitstep_Slot ", slot.name,
                      ";\n");
  return str_cat(
      "template <class jitstep_Slot, class jitstep_AfterTransform>\nstruct UnitSlots {\n", fields,
      "};\n");
}

// When the new values of slots are known.
std::string slot_timing(const Plan& plan) {
  const auto any = [&](bool after) {
    const std::vector<Slot>& slots = plan.rule().slots;
    const bool found = std::any_of(slots.begin(), slots.end(),
                                   [&](const Slot& slot) { return (slot.section > 0) == after; });
    return found ? "true" : "false";
  };
  return str_cat("jitstep::SlotTiming{", plan.slots_known, ", ", plan.slots_known_after, ", ",
                 any(false), ", ", any(true), "}");
}

// A struct with the results of the first transforms.
std::string transforms_view(const Plan& plan) {
  std::string out = "template <int Known>\nstruct UnitTransformed {};\n";
  for (std::size_t i = 0; i < plan.transform_passes.size(); ++i)
    out += str_cat("template <>\nstruct UnitTransformed<", i + 1, "> : UnitTransformed<", i,
                   "> {\n  const jitstep::real ", plan.rule().transforms[i].name, ";\n};\n");
  return out;
}

// Assertions about the functions that compute the inputs of transforms.
std::string transform_asserts(const Plan& plan) {
  std::string out;
  for (std::size_t i = 0; i < plan.transform_passes.size(); ++i) {
    const std::string& name = plan.rule().transforms[i].name;
    out += str_cat("template <class B, class E, class C>\nconcept UnitComputes", i,
                   " = requires(E& e, C& c) {\n  requires jitstep::kSame<decltype(B::", name,
                   "(e, c)), jitstep::real>;\n};\n");
    out += assertion(str_cat("UnitComputes", i, "<UnitRule::Body, UnitCheck::Computing<", i,
                             ">, UnitCheck::ContextOf<", i, ">>"),
                     "the rule declares a host transform: it",
                     str_cat("static real ", name, "(const auto& e, const auto& c)"));
  }
  return out;
}

// A struct with the inputs, and with the auxiliary state that elements read.
std::string of_element_view(const Plan& plan) {
  std::string fields;
  for (const RuleInput& input : plan.rule().inputs)
    fields += str_cat("  const jitstep::Input ", input.name, ";\n");
  for (const auto* state : {&plan.aux_state, &plan.shared_state})
    for (const ResolvedAuxState& field : *state)
      if (field.of_elements)
        fields += str_cat("  jitstep::OwnEntry<", field.is_double ? "double" : "jitstep::real",
                          "> ", field.name, ";\n");
  return str_cat("struct UnitOfElement {\n", fields, "};\n");
}

// A struct with the results of all reductions that a function called in a pass may read.
std::string results_view(const Plan& plan, const std::vector<int>& passes) {
  const Manifest& rule = plan.rule();
  std::string fields;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Reduction& reduction = rule.reductions[i];
    fields += str_cat("  typename jitstep::ResultIf<", namespace_of(rule), reduction.coefficients,
                      ", jitstep::may_read(jitstep_pass, ", passes[i], ", ",
                      reduction.read_by_update_state ? "true" : "false", ", ", reduction.section,
                      ", ", plan.state_section, ")>::type ", reduction.name, ";\n");
  }
  return str_cat("template <int jitstep_pass>\nstruct UnitResults {\n", fields, "};\n");
}

// Assertions about a reduction's `terms` and `finalize`.
std::string reduction_asserts(const Plan& plan, const ResolvedReduction& resolved) {
  const Manifest& rule = plan.rule();
  const Reduction& reduction = rule.reductions[static_cast<std::size_t>(resolved.local)];
  const std::string who = str_cat("the reduction '", reduction.name, "'"),
                    name = str_cat("Of<", reduction.coefficients, ">"),
                    sums = str_cat("Totals<", reduction.terms, ">");
  const bool all = reduction.domain.kind == Domain::Kind::all;
  const std::string from =
      reduction.source ? rule.reductions[static_cast<std::size_t>(*reduction.source)].coefficients
                       : "auto";
  return assertion(str_cat("UnitCheck::has_terms<", reduction_name(resolved), ">"), who,
                   str_cat("static Reals<", reduction.terms, "> terms(", name, ", const ", from,
                           "& e, const auto& c)")) +
         assertion(str_cat("UnitCheck::has_finalize<", reduction_name(resolved), ">"), who,
                   str_cat("static ", reduction.coefficients, " finalize(", name, ", const ", sums,
                           "& sums, int64 count, const auto& c",
                           all && plan.shared_state.empty()
                               ? "), without AuxState: it is finished for no tensor"
                           : rule.has_aux_state ? ", AuxState& m)"
                                                : ")"));
}

// The host looks for the word `Sizes`. Without it, the host merges dimensions.
std::string sizes_assert(const Manifest& rule) {
  if (rule.reads_sizes) return "";
  return assertion(
      "!jitstep::PreparesFromSizes<UnitRule::Body, UnitRule::Hyper, UnitRule::AuxState>",
      str_cat(rule.path, ": 'prepare' takes sizes by another type. It"), "const Sizes& size");
}

std::string rule_text(const Plan& plan) {
  const Manifest& rule = plan.rule();
  std::vector<int> passes;  // of the rule's reductions; -1: inactive
  std::vector<std::string> active;
  std::string asserts;
  for (const ResolvedReduction& resolved : plan.reductions) {
    if (resolved.component != kRuleComponent) continue;
    passes.push_back(resolved.pass);
    if (!resolved.active()) continue;
    asserts += reduction_asserts(plan, resolved);
    active.push_back(reduction_name(resolved));
  }
  const char* const modes =
      "static_assert(jitstep::ModesCheck<UnitSpec, UnitSlots>::read_bodies());\n";
  return str_cat(
      slots_view(rule), of_element_view(plan), results_view(plan, passes), transforms_view(plan),
      "using UnitCheck = jitstep::RuleCheck<UnitSpec, UnitSlots, UnitResults, ", slot_timing(plan),
      ", UnitOfElement, UnitTransformed>;\n", sizes_assert(rule), transform_asserts(plan), asserts,
      "static_assert(UnitCheck::read_bodies<", joined(active), ">());\n", rule.modes ? modes : "");
}

// A block may lie in several rows, so `measure` sees auxiliary state of the tensor only.
std::string measure_assert(const Manifest& codec, const std::string& arguments) {
  const bool per_tensor =
      std::all_of(codec.aux_state.begin(), codec.aux_state.end(),
                  [](const AuxField& field) { return field.domain.kind == Domain::Kind::tensor; });
  if (per_tensor) return "";
  return assertion("!jitstep::MeasuresFromAuxState" + arguments,
                   str_cat("codecs/", codec.name, ".cuh"),
                   "auxiliary state over tensor only, because measure reads it");
}

std::string codec_asserts(const Manifest& codec, int slot) {
  const std::string arguments = str_cat("<UnitSpec::Codec<", slot, ">>"),
                    who = str_cat("codecs/", codec.name, ".cuh"),
                    aux_state = codec.has_aux_state ? ", const AuxState& m" : "";
  return assertion("jitstep::SaysRandom" + arguments, who,
                   "static constexpr bool random = false;") +
         assertion("jitstep::HasMeasure" + arguments, who,
                   str_cat("int keys, static uint32 key(real x, int which), static Meta measure(",
                           "const uint32 (&key)[keys]",
                           codec.has_aux_state ? "), with or without const AuxState& m" : ")")) +
         measure_assert(codec, arguments) +
         assertion("jitstep::HasDecode" + arguments, who,
                   str_cat("static real decode(Code code, const Meta& meta", aux_state, ")")) +
         assertion("jitstep::HasEncode" + arguments, who,
                   str_cat("static Code encode(real x, const Meta& meta, uint32 random_bits",
                           aux_state, ")"));
}

}  // namespace

std::string contract_text(const Plan& plan) {
  std::string out;
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot)
    if (const Manifest* const codec = plan.codec(slot)) out += codec_asserts(*codec, slot);
  return out + rule_text(plan);
}

}  // namespace jitstep::jit
