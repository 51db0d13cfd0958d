#include "jit/codegen/unit_text.h"

#include <algorithm>
#include <array>
#include <set>

#include "jit/base/text.h"
#include "jit/codegen/contract.h"

namespace jitstep::jit {
namespace {

constexpr std::array kDtypeNames = {"Float64", "Float32", "BFloat16", "Float16"};

std::string type_of(Dtype dtype) {
  return text("jitstep::", kDtypeNames[static_cast<std::size_t>(dtype)]);
}

std::string literal(const Option& option, const Value& value, const std::string& space) {
  if (value.is_choice()) return space + option.enumeration + "::" + value.choice();
  if (value.is_number()) return text(static_cast<long long>(value.number()));
  return to_string(value);
}

// `jitstep::rules::adamw::Flags{.amsgrad = false, ...}`: every flag, in the order of declaration.
std::string flags_text(const Plan& plan, int part, const char* type) {
  const Manifest& manifest = *plan.parts[part];
  const std::string space = namespace_of(manifest);
  std::string out;
  for (const Option& option : manifest.flags) {
    out += text(out.empty() ? "" : ", ", ".", option.name, " = ",
                literal(option, plan.flags(part).at(option.name), space));
  }
  return space + type + "{" + out + "}";
}

std::string passes_text(const Plan& plan, int part) {
  std::string out;
  for (const PlannedReduction& reduction : plan.reductions) {
    if (reduction.part == part) out += text(out.empty() ? "" : ", ", reduction.pass);
  }
  return "jitstep::Passes<" + out + ">";
}

std::string part_text(const Plan& plan, int part, const std::string& body) {
  const Manifest& manifest = *plan.parts[part];
  const std::string space = namespace_of(manifest);
  const auto own = [&](bool declared, const char* name) {
    return declared ? space + name : text("jitstep::No", name);
  };
  return text("jitstep::Part<", body, ",\n    ", own(manifest.has_hyper, "Hyper"), ", ",
              own(manifest.has_reductions, "Reductions"), ", ", passes_text(plan, part), ", ",
              own(manifest.has_memory, "Memory"), ", ", manifest.memory.size(), ">");
}

// `jitstep::codecs::int8::Codec<jitstep::Signed, ...>`.
std::string codec_type(const Plan& plan, int slot) {
  const Manifest& codec = *plan.codec(slot);
  const bool is_signed = plan.rule().slots[static_cast<std::size_t>(slot)].is_signed;
  std::string out =
      namespace_of(codec) + "Codec<jitstep::" + (is_signed ? "Signed" : "NonNegative");
  if (codec.has_flags) out += ", " + flags_text(plan, codec_part(slot), "Options");
  return out + ">";
}

std::string codecs_text(const Plan& plan) {
  std::string out;
  for (int slot = 0; slot < static_cast<int>(plan.spec.slots.size()); ++slot) {
    out += slot == 0 ? "\n  " : ",\n  ";
    if (plan.codec(slot) == nullptr)
      out += "jitstep::Absent";
    else
      out += part_text(plan, codec_part(slot), codec_type(plan, slot));
  }
  return "jitstep::List<" + out + ">";
}

// ---- what host and compiler must agree on ------------------------------------------------------

void assert_part(std::set<std::string>& asserts, const Manifest& part, Dtype parameter) {
  const auto add = [&](const std::string& name, int bytes) {
    asserts.insert(text("static_assert(sizeof(", namespace_of(part), name, ") == ", bytes, ", \"",
                        part.path, ": '", name,
                        "' is not what its declaration in one line a field says\");\n"));
  };
  if (part.doubles() > 0) add("Hyper", 8 * part.doubles());
  if (part.has_meta) add("Meta", part.meta_bytes());
  for (const Reduction& reduction : part.reductions)
    add(reduction.coefficients, bytes_of(reduction.fields, parameter));
}

std::string asserts_text(const Plan& plan) {
  std::set<std::string> asserts;
  for (const Manifest* part : plan.parts)
    if (part != nullptr) assert_part(asserts, *part, plan.spec.parameter);
  for (int slot = 0; slot < static_cast<int>(plan.spec.slots.size()); ++slot) {
    const Manifest* const codec = plan.codec(slot);
    if (codec == nullptr) continue;
    const bool option = codec->find("block") != nullptr;
    asserts.insert(text("static_assert(UnitSpec::Codec<", slot,
                        ">::Body::block == ", plan.block(slot), ", \"", codec->path,
                        " needs 'static constexpr int block = ", option ? "O.block" : "1",
                        ";'\");\n"));
  }
  asserts.insert(text("static_assert(sizeof(UnitSpec::Weights::Extra) == ",
                      std::max(1, plan.weights->extra_bytes()), ");\n"));
  std::string out;
  for (const auto& one : asserts) out += one;
  return out;
}

std::string types_text(const Plan& plan, const Variant& v) {
  const KernelSpec& spec = plan.spec;
  const std::string space = namespace_of(plan.rule());
  const std::string transform =
      "jitstep::gradient::Gradient<" + flags_text(plan, kGradientPart, "Flags") + ">";
  const std::string body =
      space + "Rule" +
      (plan.rule().has_flags ? "<" + flags_text(plan, kRulePart, "Flags") + ">" : "");
  return text("using UnitGradient = ", part_text(plan, kGradientPart, transform), ";\n",
              "using UnitRule = ", part_text(plan, kRulePart, body), ";\n",
              "using UnitCodecs = ", codecs_text(plan), ";\n",
              "using UnitSpec = jitstep::Spec<UnitGradient, UnitRule, ",
              plan.rule().has_slots ? space + "Slots" : "jitstep::NoSlots", ", UnitCodecs,\n    ",
              "jitstep::weights::", spec.weights, "::Weights<", type_of(spec.parameter), ">, ",
              type_of(spec.gradient), ", ", spec.strided ? "true" : "false", ",\n    ",
              "jitstep::Variant{", v.threads, ", ", v.lanes, ", ", v.vector, ", ", v.chunk,
              "}>;\n");
}

}  // namespace

std::string include_text(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  std::string out =
      text("#define JITSTEP_REAL ", real_bytes(spec.parameter) == 8 ? "double" : "float",
           "\n#include \"core/gradient.cuh\"\n#include \"rules/", spec.rule, ".cuh\"\n");
  std::set<std::string> codecs;
  for (const auto& choice : spec.slots) {
    if (choice) codecs.insert(choice->name);
  }
  for (const auto& codec : codecs) out += text("#include \"codecs/", codec, ".cuh\"\n");
  return out + text("#include \"weights/", spec.weights, ".cuh\"\n");
}

std::string kernel_text(const Plan& plan, const Variant& variant) {
  return text(types_text(plan, variant), asserts_text(plan),
              "using Kernel = jitstep::Step<UnitSpec, ", plan.passes, ">;\n");
}

}  // namespace jitstep::jit
