#include "jit/codegen/contract.h"

#include "jit/base/text.h"
#include "jit/codegen/unit_text.h"

namespace jitstep::jit {
namespace {

std::string assertion(const std::string& asked, const std::string& who, const std::string& needed) {
  return text("static_assert(", asked, ", \"", who, " needs '", needed, "'\");\n");
}

// Every slot, of any type.
std::string slots_view(const Manifest& rule) {
  std::string fields;
  for (const Slot& slot : rule.slots) fields += text("  T ", slot.name, ";\n");
  return text("template <class T>\nstruct UnitSlots {\n", fields, "};\n");
}

// Every result, as a function that is called in pass P may read it.
std::string results_view(const Manifest& rule, const std::vector<int>& passes) {
  std::string fields;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Reduction& reduction = rule.reductions[i];
    fields += text("  typename jitstep::ResultIf<", namespace_of(rule), reduction.coefficients,
                   ", jitstep::may_read(P, ", passes[i], ", ", reduction.moments ? "true" : "false",
                   ")>::type ", reduction.name, ";\n");
  }
  return text("template <int P>\nstruct UnitResults {\n", fields, "};\n");
}

// The rule's two functions for a reduction.
std::string reduction_asserts(const Plan& plan, const PlannedReduction& planned) {
  const Manifest& rule = plan.rule();
  const Reduction& reduction = rule.reductions[static_cast<std::size_t>(planned.local)];
  const std::string who = text("the reduction '", reduction.name, "'"),
                    name = text("Of<", reduction.coefficients, ">"),
                    sums = text("Totals<", reduction.terms, ">");
  const bool all = reduction.domain.kind == Domain::Kind::all;
  const std::string from =
      reduction.over ? rule.reductions[static_cast<std::size_t>(*reduction.over)].coefficients
                     : "auto";
  return assertion(text("UnitCheck::has_terms<", reduction_name(planned), ">"), who,
                   text("static Reals<", reduction.terms, "> terms(", name, ", const ", from,
                        "& e, const auto& c)")) +
         assertion(
             text("UnitCheck::has_finish<", reduction_name(planned), ">"), who,
             text("static ", reduction.coefficients, " finish(", name, ", const ", sums,
                  "& sums, int64 count, const auto& c",
                  all && plan.common.empty() ? "), without Memory: it is finished for no tensor"
                  : rule.has_memory          ? ", Memory& m)"
                                             : ")"));
}

std::string rule_text(const Plan& plan) {
  const Manifest& rule = plan.rule();
  std::vector<int> passes;  // of the rule's own reductions; -1: left out
  std::vector<std::string> taken;
  std::string asserts;
  for (const PlannedReduction& planned : plan.reductions) {
    if (planned.part != kRulePart) continue;
    passes.push_back(planned.pass);
    if (!planned.taken()) continue;
    asserts += reduction_asserts(plan, planned);
    taken.push_back(reduction_name(planned));
  }
  const char* const modes =
      "static_assert(jitstep::ModesCheck<UnitSpec, UnitSlots>::read_bodies());\n";
  return text(slots_view(rule), results_view(rule, passes),
              "using UnitCheck = jitstep::RuleCheck<UnitSpec, UnitSlots, UnitResults, ",
              plan.slots_known, ">;\n", asserts, "static_assert(UnitCheck::read_bodies<",
              joined(taken), ">());\n", rule.modes ? modes : "");
}

std::string codec_asserts(const Manifest& codec, int slot) {
  const std::string part = text("<UnitSpec::Codec<", slot, ">>"),
                    who = text("codecs/", codec.name, ".cuh"),
                    memory = codec.has_memory ? ", const Memory& m" : "";
  return assertion("jitstep::SaysRandom" + part, who, "static constexpr bool random = false;") +
         assertion("jitstep::HasMeasure" + part, who,
                   "int keys, static uint32 key(real x, int which), static Meta measure(const "
                   "uint32 (&key)[keys])") +
         assertion("jitstep::HasDecode" + part, who,
                   text("static real decode(Code code, const Meta& meta", memory, ")")) +
         assertion(
             "jitstep::HasEncode" + part, who,
             text("static Code encode(real x, const Meta& meta, uint32 random_bits", memory, ")"));
}

}  // namespace

std::string namespace_of(const Manifest& manifest) {
  const bool rule = manifest.kind == Manifest::Kind::rule;
  if (manifest.kind == Manifest::Kind::gradient) return "jitstep::gradient::";
  return text("jitstep::", rule ? "rules::" : "codecs::", manifest.name, "::");
}

std::string contract_text(const Plan& plan) {
  std::string out;
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot)
    if (const Manifest* const codec = plan.codec(slot)) out += codec_asserts(*codec, slot);
  return out + rule_text(plan);
}

}  // namespace jitstep::jit
