#include "jit/codegen/translation_unit.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

std::string literal(const Option& option, const Value& value, const std::string& space) {
  if (value.is_choice()) return space + option.enumeration + "::" + value.choice();
  if (value.is_number()) return str_cat(static_cast<long long>(value.number()));
  return to_string(value);
}

// `jitstep::rules::adamw::Flags{.amsgrad = false, ...}`: all flags, in the order of declaration.
std::string flags_text(const Plan& plan, int component, const char* type) {
  const Manifest& manifest = *plan.components[component];
  const std::string space = namespace_of(manifest);
  const auto field = [&](const Option& option) {
    return str_cat(".", option.name, " = ",
                   literal(option, plan.flags(component).at(option.name), space));
  };
  return str_cat(space, type, "{", joined(manifest.flags, ", ", field), "}");
}

// The C++ name of a component.
std::string component_name(int component) {
  if (component == kGradientComponent) return "UnitGradient";
  return component == kRuleComponent ? "UnitRule"
                                     : str_cat("UnitCodec", component - kFirstCodecComponent);
}

std::string numbers_name(int component) { return component_name(component) + "Numbers"; }

// Appends `.0` to integers, because a large integer literal may not fit an integer type.
std::string double_text(double x) {
  const std::string digits = to_string(x);
  return digits.find_first_not_of("-0123456789") == digits.npos ? digits + ".0" : digits;
}

// A codec's numbers. Each is a constant or one of the rule's numbers.
std::string numbers_text(const Plan& plan, int component) {
  const Manifest& codec = *plan.components[static_cast<std::size_t>(component)];
  if (!codec.has_hyper) return "";
  const auto field = [&](const Option& option) {
    const Value& value = plan.flags(component).at(option.name);
    return str_cat(".", option.name, " = ",
                   value.is_choice() ? "rule." + value.choice() : double_text(value.number()));
  };
  const std::string type = namespace_of(codec) + "Hyper";
  return str_cat("struct ", numbers_name(component), " {\n  KHD static ", type,
                 " of([[maybe_unused]] const auto& rule) {\n    return ", type, "{",
                 joined(codec.hyper, ", ", field), "};\n  }\n};\n");
}

std::string component_text(const Plan& plan, int component, const std::string& body) {
  const Manifest& manifest = *plan.components[component];
  const std::string space = namespace_of(manifest);
  const auto own = [&](bool declared, const char* name) {
    return declared ? space + name : str_cat("jitstep::No", name);
  };
  return str_cat(
      "jitstep::Component<", body, ",\n    ", own(manifest.has_hyper, "Hyper"), ", ",
      own(manifest.has_reductions, "Reductions"), ", ", own(manifest.has_aux_state, "AuxState"),
      component >= kFirstCodecComponent && manifest.has_hyper ? ", " + numbers_name(component) : "",
      ">");
}

// `jitstep::codecs::int8::Codec<jitstep::Signed, ...>`.
std::string codec_type(const Plan& plan, int slot) {
  const Manifest& codec = *plan.codec(slot);
  const bool is_signed = plan.rule().slots[static_cast<std::size_t>(slot)].is_signed;
  std::string out =
      namespace_of(codec) + "Codec<jitstep::" + (is_signed ? "Signed" : "NonNegative");
  if (codec.has_flags) out += ", " + flags_text(plan, codec_component(slot), "Options");
  return out + ">";
}

// An alias for each codec, then the list of codecs and of the slots' fields.
std::string codecs_text(const Plan& plan) {
  const std::vector<Slot>& slots = plan.rule().slots;
  std::string types;
  std::vector<std::string> codecs, fields;
  for (int slot = 0; slot < static_cast<int>(slots.size()); ++slot) {
    const int component = codec_component(slot);
    const bool stored = plan.codec(slot) != nullptr;
    if (stored)
      types += str_cat(numbers_text(plan, component), "using ", component_name(component), " = ",
                       component_text(plan, component, codec_type(plan, slot)), ";\n");
    codecs.push_back(stored ? component_name(component) : "jitstep::Absent");
    fields.push_back(str_cat("jitstep::FieldRef<&", namespace_of(plan.rule()),
                             "Slots::", slots[static_cast<std::size_t>(slot)].name, ">"));
  }
  return str_cat(types, "using UnitCodecs = jitstep::List<", joined(codecs), ">;\n",
                 "using UnitSlotFields = jitstep::List<", joined(fields, ",\n    "), ">;\n");
}

// An alias for each active reduction, and the list of them.
std::string reductions_text(const Plan& plan) {
  std::string rows;
  std::vector<std::string> names;
  for (const ResolvedReduction& r : plan.reductions) {
    if (!r.active()) continue;
    names.push_back(reduction_name(r));
    rows += str_cat("using ", names.back(), " = jitstep::Reduction<", component_name(r.component),
                    ", jitstep::Resolved{.component = ", r.component, ", .number = ", r.number,
                    ", .pass = ", r.pass, ", .reduction_layout = ", r.reduction_layout);
    if (r.has_source) rows += str_cat(", .source = ", r.source_number);
    rows +=
        str_cat("},\n    &", namespace_of(*plan.components[static_cast<std::size_t>(r.component)]),
                "Reductions::", r.name, ">;\n");
  }
  return str_cat(rows, "using UnitReductions = jitstep::List<", joined(names), ">;\n");
}

std::string aux_state_text(const Plan& plan) {
  std::vector<std::string> rows;
  for (const auto* fields : {&plan.aux_state, &plan.shared_state})
    for (const ResolvedAuxState& m : *fields)
      if (!m.matrix)
        rows.push_back(
            str_cat("jitstep::AuxField<", m.component, ", ", m.number, ", &",
                    namespace_of(*plan.components[static_cast<std::size_t>(m.component)]),
                    "AuxState::", m.name, m.of_elements ? ", true>" : ">"));
  return str_cat("using UnitAuxState = jitstep::List<", joined(rows, ",\n    "), ">;\n");
}

// A struct for each host transform, and the list of them. The struct calls the rule's function by its name, which is
// also the name of the element's member with the result.
std::string transforms_text(const Plan& plan) {
  std::string types;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.transform_passes.size(); ++i) {
    const std::string& name = plan.rule().transforms[i].name;
    names.push_back(str_cat("UnitTransform", i));
    types += str_cat("struct ", names.back(), " {\n  static constexpr int number = ", i,
                     ", pass = ", plan.transform_passes[i],
                     ";\n  KHD static jitstep::real input(const auto& e, const auto& c) { return ",
                     "UnitRule::Body::", name, "(e, c); }\n",
                     "  KHD static auto& of(auto& e) { return e.", name, "; }\n};\n");
  }
  return str_cat(types, "using UnitTransforms = jitstep::List<", joined(names), ">;\n");
}

// The last arguments of the specification, if the rule has inputs or declares several transforms.
std::string inputs_text(const Plan& plan) {
  const std::vector<RuleInput>& inputs = plan.rule().inputs;
  const std::string transforms =
      plan.rule().has_transforms ? ", " + namespace_of(plan.rule()) + "Transforms" : "";
  if (inputs.empty() && transforms.empty()) return "";
  if (inputs.empty()) return ",\n    jitstep::NoInputs, jitstep::List<>" + transforms;
  const std::string type = namespace_of(plan.rule()) + "Inputs";
  const auto field = [&](const RuleInput& input) {
    return str_cat("jitstep::FieldRef<&", type, "::", input.name, ">");
  };
  return str_cat(",\n    ", type, ", jitstep::List<", joined(inputs, ", ", field), ">", transforms);
}

// ---- assertions that host and compiler agree ----------------------------------------------------

void assert_component(std::set<std::string>& asserts, const Manifest& component, Dtype parameter) {
  const auto add = [&](const std::string& name, int bytes) {
    asserts.insert(str_cat("static_assert(sizeof(", namespace_of(component), name, ") == ", bytes,
                           ", \"", component.path, ": '", name,
                           "' has another size than the fields that jitstep reads. Declare each "
                           "field on a line of its own\");\n"));
  };
  if (component.doubles() > 0) add("Hyper", 8 * component.doubles());
  if (component.has_meta) add("Meta", component.meta_bytes());
  for (const Reduction& reduction : component.reductions)
    add(reduction.coefficients, bytes_of(reduction.fields, parameter));
}

std::string asserts_text(const Plan& plan) {
  std::set<std::string> asserts;
  for (const Manifest* component : plan.components)
    if (component != nullptr) assert_component(asserts, *component, plan.spec.state.dtype);
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot) {
    const Manifest* const codec = plan.codec(slot);
    if (codec == nullptr) continue;
    const bool option = codec->find("block") != nullptr;
    asserts.insert(str_cat("static_assert(UnitSpec::Codec<", slot,
                           ">::Body::block == ", plan.block(slot), ", \"", codec->path,
                           " needs 'static constexpr int block = ", option ? "O.block" : "1",
                           ";'\");\n"));
  }
  asserts.insert(str_cat("static_assert(sizeof(UnitSpec::Weights::Residual) == ",
                         std::max(1, plan.weights->residual_bytes()), ", \"", plan.weights->path,
                         ": 'Residual' has another size than its declaration says\");\n"));
  std::string out;
  for (const auto& one : asserts) out += one;
  return out;
}

std::string types_text(const Plan& plan, const KernelConfig& v, Traversal traversal) {
  const KernelSpec& spec = plan.spec;
  const std::string space = namespace_of(plan.rule());
  const std::string transform =
      "jitstep::gradient::Gradient<" + flags_text(plan, kGradientComponent, "Flags") + ">";
  const std::string body =
      space + "Rule" +
      (plan.rule().has_flags ? "<" + flags_text(plan, kRuleComponent, "Flags") + ">" : "");
  return str_cat("using UnitGradient = ", component_text(plan, kGradientComponent, transform),
                 ";\n", "using UnitRule = ", component_text(plan, kRuleComponent, body), ";\n",
                 codecs_text(plan), reductions_text(plan), aux_state_text(plan),
                 transforms_text(plan), "using UnitSpec = jitstep::Spec<UnitGradient, UnitRule, ",
                 plan.rule().has_slots ? space + "Slots" : "jitstep::NoSlots",
                 ", UnitSlotFields, UnitCodecs,\n    UnitReductions, UnitAuxState, ",
                 "jitstep::weights::", spec.state.weights, "::Weights<",
                 template_type(spec.state.dtype), ">, ", template_type(spec.gradient), ", ",
                 spec.strided ? "true" : "false", ", UnitTransforms, ", plan.state_section,
                 ",\n    ", "jitstep::KernelConfig{", v.threads, ", ", v.tile_lanes, ", ",
                 v.vector_elems, ", ", v.leaves_per_item,
                 "}, jitstep::", traversal == Traversal::loops ? "LoopTraversal" : "TileTraversal",
                 inputs_text(plan), ">;\n");
}

}  // namespace

std::string namespace_of(const Manifest& manifest) {
  const bool rule = manifest.kind == Manifest::Kind::rule;
  if (manifest.kind == Manifest::Kind::gradient) return "jitstep::gradient::";
  return str_cat("jitstep::", rule ? "rules::" : "codecs::", manifest.name, "::");
}

bool has_random_slot(const Plan& plan, int slot) {
  const Manifest* const codec = plan.codec(slot);
  if (codec == nullptr || !codec->random) return false;
  const NamedValues& options = plan.flags(codec_component(slot));
  const auto chosen = options.find("stochastic");
  return chosen == options.end() || chosen->second.boolean();
}

std::string reduction_name(const ResolvedReduction& reduction) {
  return str_cat("UnitReduction", reduction.number);
}

std::string compiler_text(const Plan& plan, const KernelConfig& config) {
  const auto prefer = [](const char* macro, int bits) {
    return str_cat("#if !defined(__clang__) && defined(", macro, ")\n",
                   "#pragma GCC target(\"prefer-vector-width=", bits, "\")\n#endif\n");
  };
  std::string out;
  if (config.simd_bits != 0)
    out += prefer("__x86_64__", config.simd_bits);
  else if (config.threads == 1 && plan.spec.state.dtype == Dtype::bfloat16)
    out += prefer("__AVX512BF16__", 512);
  if (config.unroll != 0)
    out += "#if !defined(__clang__)\n#pragma GCC optimize(\"unroll-loops\")\n#endif\n";
  return out;
}

std::string include_text(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  std::string out = str_cat("#define JITSTEP_REAL ",
                            real_bytes(spec.state.dtype) == 8 ? "double" : "float", "\n");
  if (spec.state.dtype == Dtype::bfloat16) out += "#define JITSTEP_PARAMETER_EPSILON 0x1p-7\n";
  if (spec.state.dtype == Dtype::float16) out += "#define JITSTEP_PARAMETER_EPSILON 0x1p-10\n";
  const auto include = [&](const Manifest& component) {
    out += str_cat("#include \"", component.source, "\"\n");
  };
  // The rule comes first: a user's file must get the includes that it had when it was loaded.
  include(plan.rule());
  std::map<std::string, const Manifest*> codecs;
  for (std::size_t component = kFirstCodecComponent; component < plan.components.size();
       ++component)
    if (const Manifest* const codec = plan.components[component]) codecs[codec->name] = codec;
  for (const auto& [name, codec] : codecs) include(*codec);
  include(*plan.weights);
  include(plan.gradient());
  return out;
}

Traversal traversal_of(const Plan& plan, const KernelConfig& config) {
  return config.threads == 1 && !plan.spec.strided ? Traversal::loops : Traversal::tiles;
}

std::string spec_types(const Plan& plan, const KernelConfig& config, Traversal traversal) {
  return types_text(plan, config, traversal) + asserts_text(plan);
}

}  // namespace jitstep::jit
