#include "jit/codegen/translation_unit.h"

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

// A member of the unit's parts. Without it, the default holds.
std::string member(const char* name, const std::string& type) {
  return str_cat("  using ", name, " = ", type, ";\n");
}
std::string list_member(const char* name, const std::vector<std::string>& types) {
  return types.empty() ? ""
                       : member(name, str_cat("jitstep::List<", joined(types, ",\n    "), ">"));
}

// Some text of a unit: types at namespace level, and members of its parts that use them.
struct Text {
  std::string types, members;
};

// A type for each codec.
Text slots_text(const Plan& plan) {
  const std::vector<Slot>& slots = plan.rule().slots;
  if (!plan.rule().has_slots) return {};
  const std::string type = namespace_of(plan.rule()) + "Slots";
  Text out;
  std::vector<std::string> codecs, fields;
  for (int slot = 0; slot < static_cast<int>(slots.size()); ++slot) {
    const int component = codec_component(slot);
    const bool stored = plan.codec(slot) != nullptr;
    if (stored)
      out.types += str_cat(numbers_text(plan, component), "using ", component_name(component),
                           " = ", component_text(plan, component, codec_type(plan, slot)), ";\n");
    codecs.push_back(stored ? component_name(component) : "jitstep::Absent");
    fields.push_back(str_cat("jitstep::FieldRef<&", type,
                             "::", slots[static_cast<std::size_t>(slot)].name, ">"));
  }
  out.members =
      member("Slots", type) + list_member("SlotFields", fields) + list_member("Codecs", codecs);
  return out;
}

// A type for each active reduction.
Text reductions_text(const Plan& plan) {
  Text out;
  std::vector<std::string> names;
  for (const ResolvedReduction& r : plan.reductions) {
    if (!r.active()) continue;
    names.push_back(reduction_name(r));
    out.types +=
        str_cat("using ", names.back(), " = jitstep::Reduction<", component_name(r.component),
                ", jitstep::Resolved{.component = ", r.component, ", .number = ", r.number,
                ", .pass = ", r.pass, ", .reduction_layout = ", r.reduction_layout);
    if (r.has_source) out.types += str_cat(", .source = ", r.source_number);
    out.types +=
        str_cat("},\n    &", namespace_of(*plan.components[static_cast<std::size_t>(r.component)]),
                "Reductions::", r.name, ">;\n");
  }
  out.members = list_member("Reductions", names);
  return out;
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
  return list_member("AuxFields", rows);
}

// A struct for each host transform. It calls the rule's function by its name, which is also the name of the element's
// member with the result.
Text transforms_text(const Plan& plan) {
  Text out;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.transform_passes.size(); ++i) {
    const std::string& name = plan.rule().transforms[i].name;
    names.push_back(str_cat("UnitTransform", i));
    out.types +=
        str_cat("struct ", names.back(), " {\n  static constexpr int number = ", i,
                ", pass = ", plan.transform_passes[i],
                ";\n  KHD static jitstep::real input(const auto& e, const auto& c) { return ",
                "UnitRule::Body::", name, "(e, c); }\n",
                "  KHD static auto& of(auto& e) { return e.", name, "; }\n};\n");
  }
  out.members = list_member("Transforms", names);
  if (plan.rule().has_transforms)
    out.members += member("OfTransforms", namespace_of(plan.rule()) + "Transforms");
  if (plan.state_section != 0)
    out.members += str_cat("  static constexpr int state_section = ", plan.state_section, ";\n");
  return out;
}

std::string inputs_text(const Plan& plan) {
  if (plan.rule().inputs.empty()) return "";
  const std::string type = namespace_of(plan.rule()) + "Inputs";
  std::vector<std::string> fields;
  for (const RuleInput& input : plan.rule().inputs)
    fields.push_back(str_cat("jitstep::FieldRef<&", type, "::", input.name, ">"));
  return member("Inputs", type) + list_member("InputFields", fields);
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

std::string assert_same(const Manifest& file, const char* name, const std::string& type,
                        const std::string& read) {
  return str_cat("static_assert(jitstep::kSame<", type, ", ", read, ">, \"", file.path,
                 ": jitstep reads '", name, "' as ", read, ", but the compiler as another type. ",
                 "Declare it once, outside #if, in the form of the reference\");\n");
}

// The host allocates the buffers. It reads the first declarations in the file, whatever their scope.
void assert_codec(std::set<std::string>& asserts, const Manifest& codec, int slot) {
  const std::string body = str_cat("UnitSpec::Codec<", slot, ">::Body::");
  asserts.insert(assert_same(codec, "Code", body + "Code", "jitstep::" + codec.code));
  asserts.insert(assert_same(codec, "Meta", body + "Meta",
                             codec.has_meta ? namespace_of(codec) + "Meta" : "jitstep::NoMeta"));
}

void assert_residual(std::set<std::string>& asserts, const Manifest& weights) {
  const std::string& residual = weights.residual;
  asserts.insert(assert_same(weights, "Residual", "UnitSpec::Weights::Residual",
                             residual.empty()      ? "jitstep::NoResidual"
                             : residual == "float" ? residual
                                                   : "jitstep::" + residual));
}

std::string asserts_text(const Plan& plan) {
  std::set<std::string> asserts;
  for (const Manifest* component : plan.components)
    if (component != nullptr) assert_component(asserts, *component, plan.spec.state.dtype);
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot) {
    const Manifest* const codec = plan.codec(slot);
    if (codec == nullptr) continue;
    assert_codec(asserts, *codec, slot);
    const bool option = codec->find("block") != nullptr;
    asserts.insert(str_cat("static_assert(UnitSpec::Codec<", slot,
                           ">::Body::block == ", plan.block(slot), ", \"", codec->path,
                           " needs 'static constexpr int block = ", option ? "O.block" : "1",
                           ";'\");\n"));
  }
  assert_residual(asserts, *plan.weights);
  std::string out;
  for (const auto& one : asserts) out += one;
  return out;
}

// The rule and the transform of the gradient.
Text components_text(const Plan& plan) {
  const std::string gradient =
      "jitstep::gradient::Gradient<" + flags_text(plan, kGradientComponent, "Flags") + ">";
  const std::string rule =
      namespace_of(plan.rule()) + "Rule" +
      (plan.rule().has_flags ? "<" + flags_text(plan, kRuleComponent, "Flags") + ">" : "");
  return {str_cat("using UnitGradient = ", component_text(plan, kGradientComponent, gradient),
                  ";\n", "using UnitRule = ", component_text(plan, kRuleComponent, rule), ";\n"),
          member("Gradient", "UnitGradient") + member("Rule", "UnitRule")};
}

std::string formats_text(const KernelSpec& spec) {
  std::string out = member("Weights", str_cat("jitstep::weights::", spec.state.weights,
                                              "::Weights<", template_type(spec.state.dtype), ">")) +
                    member("G", template_type(spec.gradient));
  if (spec.strided) out += "  static constexpr bool strided = true;\n";
  return out;
}

std::string config_text(const KernelConfig& config, Traversal traversal) {
  return str_cat("  static constexpr jitstep::KernelConfig config{.threads = ", config.threads,
                 ", .tile_lanes = ", config.tile_lanes, ", .vector_elems = ", config.vector_elems,
                 ", .leaves_per_item = ", config.leaves_per_item, "};\n",
                 member("Traversal", traversal == Traversal::loops ? "jitstep::LoopTraversal"
                                                                   : "jitstep::TileTraversal"));
}

std::string types_text(const Plan& plan, const KernelConfig& config, Traversal traversal) {
  const Text components = components_text(plan), slots = slots_text(plan),
             reductions = reductions_text(plan), transforms = transforms_text(plan);
  return str_cat(components.types, slots.types, reductions.types, transforms.types,
                 "struct UnitParts : jitstep::DefaultParts {\n", components.members, slots.members,
                 reductions.members, aux_state_text(plan), transforms.members, inputs_text(plan),
                 formats_text(plan.spec), config_text(config, traversal), "};\n",
                 "using UnitSpec = jitstep::Spec<UnitParts>;\n");
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
  return chosen == options.end() || !chosen->second.is_bool() || chosen->second.boolean();
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
