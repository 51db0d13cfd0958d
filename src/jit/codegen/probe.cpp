#include "jit/codegen/probe.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jit/codegen/contract.h"
#include "jit/codegen/unit_text.h"
#include "jitstep/jit/variant.h"

namespace jitstep::jit {
namespace {

// Writes `struct Watch`: what is looked at after each of the rule's functions.
class Watch {
 public:
  explicit Watch(const Plan& plan) : plan_(plan), rule_(plan.rule()) {}

  std::string run() {
    std::string out = "struct UnitWatch {\n";  // piece after piece, as each takes its numbers
    out += prepared();
    out += clear();
    out += left_out();
    out += moved();
    out += terms();
    out += finished();
    out += staged();
    out += applied();
    out += remembered();
    out += turned();
    return out + "};\n";
  }

  std::vector<std::string> findings() && { return std::move(findings_); }

 private:
  // One look, and what it means if there is something.
  std::string look(const char* how, const std::string& at, const std::string& meaning) {
    findings_.push_back(meaning);
    return text("    r.", how, "(", findings_.size() - 1, ", ", at, ");\n");
  }

  bool is_kept(const MemoryField& field) const {
    const auto is_it = [&](const PlannedMemory& planned) {
      return planned.part == kRulePart && planned.name == field.name;
    };
    return std::any_of(plan_.memory.begin(), plan_.memory.end(), is_it) ||
           std::any_of(plan_.common.begin(), plan_.common.end(), is_it);
  }

  // Whether it keeps what an option said when its parameter came, which may be all that it is for.
  bool is_constant(const PlannedMemory& field) const {
    return std::any_of(rule_.memory.begin(), rule_.memory.end(), [&](const MemoryField& one) {
      return one.name == field.name && !one.initial.option.empty();
    });
  }

  // The fields of memory that a function must not write: those of other domains, and what is left out.
  std::string foreign_memory(const std::vector<Domain>& own, const std::string& function) {
    std::string out;
    for (const MemoryField& field : rule_.memory) {
      const bool foreign = std::find(own.begin(), own.end(), field.domain) == own.end();
      if (!foreign && is_kept(field)) continue;
      out += look(
          "written", text("m.", field.name, ".next"),
          text("`", function, "` writes m.", field.name, ".next, memory ",
               foreign ? "of another domain, which" : "that `if` leaves out: it", " is not kept"));
    }
    return out;
  }

  std::string prepared() {
    std::string body;
    for (const std::string& scalar : rule_.scalars)
      body += look("unset", "c." + scalar, text("`prepare` leaves c.", scalar, " unset"));
    body += foreign_memory({{Domain::Kind::tensor}, {Domain::Kind::all}}, "prepare");
    return function("prepared(auto& r, const auto& c, const auto& m)", body);
  }

  // Results that are read before they are there, or although they are left out, are poison; so is memory.
  std::string clear() {
    std::string body;
    for (const Reduction& reduction : rule_.reductions)
      for (const Field& field : reduction.fields)
        body += text("    c.", reduction.name, ".", field.name, " = jitstep::Poison();\n");
    return function("clear(auto& c)", body);
  }

  std::string left_out() {
    std::string body;
    for (const MemoryField& field : rule_.memory)
      if (!is_kept(field))
        for (const char* half : {"was", "next"})
          body += text("    m.", field.name, ".", half, " = jitstep::Poison();\n");
    return function("left_out(auto& m)", body);
  }

  std::string moved() {
    std::string body;
    for (std::size_t i = 0; i < rule_.slots.size(); ++i) {
      if (plan_.codec(static_cast<int>(i)) == nullptr) continue;
      const std::string at = text("e.", rule_.slots[i].name, ".next");
      body +=
          look("unset", at,
               text("`moments` leaves ", at, " unset, or makes it of something that is not set"));
    }
    return function("moved(auto& r, const auto& e)", body);
  }

  std::string terms() {
    std::string out;
    for (const PlannedReduction* planned : taken()) {
      out += text("  static constexpr int terms(", index(*planned), ") { return ", findings_.size(),
                  "; }\n");
      findings_.push_back(text("`terms(Of<", declared(*planned).coefficients,
                               ">)` makes a term of something that is not set"));
    }
    return out;
  }

  std::string finished() {
    std::string out;
    for (const PlannedReduction* planned : taken()) {
      const Reduction& reduction = declared(*planned);
      const std::string name = text("finish(Of<", reduction.coefficients, ">)");
      std::string body;
      for (const Field& field : reduction.fields)
        body += look("unset", "x." + field.name,
                     text("`", name, "` leaves c.", reduction.name, ".", field.name,
                          " unset, or makes it of something that is not set"));
      body += foreign_memory({reduction.domain}, name);
      out += function(
          text("finished(", index(*planned), ", auto& r, const auto& x, const auto& m)"), body);
    }
    return out;
  }

  // After a function that sets e.p.
  std::string moved_parameter(const char* declaration, const char* function_name) {
    return function(text(declaration, "(auto& r, const auto& e)"),
                    look("unset", "e.p",
                         text("`", function_name,
                              "` makes e.p of something that is not set: a slot or a result that "
                              "`if` leaves out, or a variable")));
  }

  std::string staged() {
    if (rule_.host_stage.empty()) return {};
    return function("staged(auto& r, const auto& e)",
                    look("unset", "e.staged",
                         "`staged` returns something that is not set: a slot or a result that `if` "
                         "leaves out, or a variable"));
  }

  std::string applied() { return moved_parameter("applied", "apply"); }

  std::string turned() {
    const std::string has =
        text("  static constexpr bool modes = ", rule_.modes ? "true" : "false");
    if (!rule_.modes) return has + ";\n";
    return text(has, ";\n", moved_parameter("evaluated", "eval"),
                moved_parameter("trained", "train"));
  }

  std::string remembered() {
    std::string body;
    for (const auto* fields : {&plan_.memory, &plan_.common})
      for (const PlannedMemory& field : *fields)
        if (field.part == kRulePart && !is_constant(field))
          body += look("forgotten", text(field.number),
                       text("nobody writes m.", field.name,
                            ".next, so that it stays as it begins: write it, or leave the field "
                            "out by `if`"));
    return function("remembered(auto& r)", body);
  }

  // The rule's reductions that are taken.
  std::vector<const PlannedReduction*> taken() const {
    std::vector<const PlannedReduction*> out;
    for (const PlannedReduction& planned : plan_.reductions)
      if (planned.part == kRulePart && planned.taken()) out.push_back(&planned);
    return out;
  }

  const Reduction& declared(const PlannedReduction& planned) const {
    return rule_.reductions[static_cast<std::size_t>(planned.local)];
  }

  static std::string index(const PlannedReduction& planned) {
    return text("jitstep::Index<", planned.number, ">");
  }

  static std::string function(const std::string& declaration, const std::string& body) {
    return text("  static void ", declaration, " {\n", body, "  }\n");
  }

  const Plan& plan_;
  const Manifest& rule_;
  std::vector<std::string> findings_;
};

}  // namespace

Probe probe_of(const Plan& plan) {
  Watch watch(plan);
  Probe made{plan.name + "_probe", {}, {}};
  made.text = text(include_text(plan), "#include \"schedules/contract_probe.cuh\"\n",
                   kernel_text(plan, default_variant(plan, Target::cpu())), watch.run(),
                   "extern \"C\" __attribute__((visibility(\"default\"))) void jitstep_probe(\n"
                   "    const void* args, long long, long long) {\n"
                   "  jitstep::probe<UnitSpec, UnitWatch, ",
                   plan.passes, ", ", plan.slots_known,
                   ">(*static_cast<const jitstep::ProbeArgs*>(args));\n}\n");
  made.findings = std::move(watch).findings();
  return made;
}

}  // namespace jitstep::jit
