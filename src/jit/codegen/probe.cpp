#include "jit/codegen/probe.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/codegen/translation_unit.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {
namespace {

// Writes `struct UnitWatch`: the checks after each of the rule's functions.
class ProbeWriter {
 public:
  explicit ProbeWriter(const Plan& plan) : plan_(plan), rule_(plan.rule()) {}

  std::string run() {
    std::string out = "struct UnitWatch {\n";
    // Separate statements, because each call numbers its findings and the order must be fixed.
    out += prepared();
    out += clear();
    out += left_out();
    out += moved("moved", "update_state", false);
    out += moved("moved_after", "update_state_after", true);
    out += terms();
    out += finished();
    out += transformed();
    out += applied();
    out += remembered();
    out += modes();
    return out + "};\n";
  }

  std::vector<std::string> findings() && { return std::move(findings_); }

 private:
  // A line of code for one check, and the finding that it reports.
  std::string check(const char* how, const std::string& at, const std::string& meaning) {
    findings_.push_back(meaning);
    return str_cat("    r.", how, "(", findings_.size() - 1, ", ", at, ");\n");
  }

  bool is_stored(const AuxField& field) const {
    const auto is_it = [&](const ResolvedAuxState& resolved) {
      return resolved.component == kRuleComponent && resolved.name == field.name;
    };
    return std::any_of(plan_.aux_state.begin(), plan_.aux_state.end(), is_it) ||
           std::any_of(plan_.shared_state.begin(), plan_.shared_state.end(), is_it);
  }

  const AuxField& declared(const ResolvedAuxState& field) const {
    return *std::find_if(rule_.aux_state.begin(), rule_.aux_state.end(),
                         [&](const AuxField& one) { return one.name == field.name; });
  }

  // Whether the field's initial value comes from an option. Its only purpose may be to store that value per parameter.
  bool is_constant(const ResolvedAuxState& field) const {
    return !declared(field).initial.option.empty();
  }

  static bool has_entries(const ResolvedAuxState& field) {
    return field.domain.kind != Domain::Kind::tensor && field.domain.kind != Domain::Kind::all;
  }

  // Checks of the fields that a function must not write: fields of other domains, and excluded fields.
  std::string foreign_fields(const std::vector<Domain>& own, const std::string& function) {
    std::string out;
    for (const AuxField& field : rule_.aux_state) {
      const bool foreign = std::find(own.begin(), own.end(), field.domain) == own.end();
      if (!foreign && is_stored(field)) continue;
      out += check("written", str_cat("m.", field.name, ".next"),
                   str_cat("`", function, "` writes m.", field.name, ".next, auxiliary state ",
                           foreign ? "of another domain, which" : "that `if` excludes: it",
                           " is not stored"));
    }
    return out;
  }

  // Checks that a function leaves the values before the step.
  std::string kept_fields(const std::string& function) {
    std::string out;
    for (const AuxField& field : rule_.aux_state)
      if (is_stored(field))
        out += check("kept", str_cat("m.", field.name, ".prev"),
                     str_cat("`", function, "` writes m.", field.name,
                             ".prev, the value before the step. Write m.", field.name, ".next"));
    return out;
  }

  std::string prepared() {
    std::string body;
    for (const std::string& scalar : rule_.scalars)
      body += check("unset", "c." + scalar, str_cat("`prepare` does not set c.", scalar));
    body += foreign_fields({{Domain::Kind::tensor}, {Domain::Kind::all}}, "prepare");
    body += kept_fields("prepare");
    return function("prepared(auto& r, const auto& c, const auto& m)", body);
  }

  // Poisons results, so that a function that reads one too early, or an excluded one, gets poison.
  std::string clear() {
    std::string body;
    for (const Reduction& reduction : rule_.reductions)
      for (const Field& field : reduction.fields)
        body += str_cat("    c.", reduction.name, ".", field.name, " = jitstep::Poison();\n");
    return function("clear(auto& c)", body);
  }

  std::string left_out() {
    std::string body;
    for (const AuxField& field : rule_.aux_state)
      if (!is_stored(field))
        for (const char* half : {"prev", "next"})
          body += str_cat("    m.", field.name, ".", half, " = jitstep::Poison();\n");
    return function("left_out(auto& m)", body);
  }

  // The check after the function that sets the slots before a host transform, or after it.
  std::string moved(const char* name, const char* setter, bool after_transform) {
    std::string body;
    for (std::size_t i = 0; i < rule_.slots.size(); ++i) {
      if (plan_.codec(static_cast<int>(i)) == nullptr ||
          (rule_.slots[i].section > 0) != after_transform)
        continue;
      const std::string at = str_cat("e.", rule_.slots[i].name, ".next");
      body += check(
          "computed", at,
          str_cat("`", setter, "` does not set ", at, ", or computes it from an unset value"));
    }
    return function(str_cat(name, "(auto& r, const auto& e)"), body);
  }

  std::string terms() {
    std::string out;
    for (const ResolvedReduction* resolved : active()) {
      out += str_cat("  static constexpr int terms(", index(*resolved), ") { return ",
                     findings_.size(), "; }\n");
      findings_.push_back(str_cat("`terms(Of<", declared(*resolved).coefficients,
                                  ">)` computes a term from an unset value"));
    }
    return out;
  }

  std::string finished() {
    std::string out;
    for (const ResolvedReduction* resolved : active()) {
      const Reduction& reduction = declared(*resolved);
      const std::string name = str_cat("finalize(Of<", reduction.coefficients, ">)");
      std::string body;
      for (const Field& field : reduction.fields)
        body += check("unset", "x." + field.name,
                      str_cat("`", name, "` does not set c.", reduction.name, ".", field.name,
                              ", or computes it from an unset value"));
      body += foreign_fields({reduction.domain}, name);
      body += kept_fields(name);
      out += function(
          str_cat("finished(", index(*resolved), ", auto& r, const auto& x, const auto& m)"), body);
    }
    return out;
  }

  // The check after a function that sets e.p.
  std::string moved_parameter(const char* declaration, const char* function_name) {
    return function(
        str_cat(declaration, "(auto& r, const auto& e)"),
        check("computed", "e.p",
              str_cat("`", function_name,
                      "` computes e.p from an unset value: a slot or a result that `if` "
                      "excludes, or a variable")));
  }

  std::string transformed() {
    std::string out;
    for (std::size_t i = 0; i < rule_.transforms.size(); ++i) {
      const std::string& name = rule_.transforms[i].name;
      out += function(str_cat("transformed(jitstep::Index<", i, ">, auto& r, const auto& e)"),
                      check("computed", "e." + name,
                            str_cat("`", name, "` returns an unset value: a slot or a result that ",
                                    "`if` excludes, or a variable")));
    }
    return out;
  }

  std::string applied() { return moved_parameter("applied", "update_param"); }

  std::string modes() {
    const std::string has =
        str_cat("  static constexpr bool modes = ", rule_.modes ? "true" : "false");
    if (!rule_.modes) return has + ";\n";
    return str_cat(has, ";\n", moved_parameter("evaluated", "eval"),
                   moved_parameter("trained", "train"));
  }

  std::string remembered() {
    std::string body;
    for (const auto* fields : {&plan_.aux_state, &plan_.shared_state})
      for (const ResolvedAuxState& field : *fields)
        if (field.component == kRuleComponent && !field.matrix && !is_constant(field))
          body +=
              check("forgotten",
                    str_cat(field.number, has_entries(field) ? ", true" : ", false",
                            declared(field).assigned ? ", true" : ", false"),
                    str_cat("no function writes m.", field.name,
                            ".next, so that it keeps its initial value. Write it, or exclude the "
                            "field by `if`"));
    return function("remembered(auto& r)", body);
  }

  // The rule's active reductions.
  std::vector<const ResolvedReduction*> active() const {
    std::vector<const ResolvedReduction*> out;
    for (const ResolvedReduction& resolved : plan_.reductions)
      if (resolved.component == kRuleComponent && resolved.active()) out.push_back(&resolved);
    return out;
  }

  const Reduction& declared(const ResolvedReduction& resolved) const {
    return rule_.reductions[static_cast<std::size_t>(resolved.local)];
  }

  static std::string index(const ResolvedReduction& resolved) {
    return str_cat("jitstep::Index<", resolved.number, ">");
  }

  static std::string function(const std::string& declaration, const std::string& body) {
    return str_cat("  static void ", declaration, " {\n", body, "  }\n");
  }

  const Plan& plan_;
  const Manifest& rule_;
  std::vector<std::string> findings_;
};

}  // namespace

Probe probe_of(const Plan& plan) {
  ProbeWriter writer(plan);
  Probe result{plan.name + "_probe", {}, {}};
  const KernelConfig config = default_kernel_config(plan, Target::cpu());
  result.text =
      str_cat(include_text(plan), "#include \"kernel/check/contract_probe.cuh\"\n",
              spec_types(plan, config, Traversal::tiles), writer.run(),
              "extern \"C\" __attribute__((visibility(\"default\"))) void jitstep_probe(\n"
              "    const void* args, long long, long long) {\n"
              "  jitstep::probe<UnitSpec, UnitWatch, ",
              plan.passes, ", ", plan.slots_known, ", ", plan.slots_known_after,
              ">(*static_cast<const jitstep::ProbeArgs*>(args));\n}\n");
  result.findings = std::move(writer).findings();
  return result;
}

}  // namespace jitstep::jit
