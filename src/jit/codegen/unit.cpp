#include "jitstep/jit/unit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "jit/base/text.h"
#include "jit/codegen/contract.h"
#include "jitstep/jit/error.h"

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
std::string flags_text(const Manifest& manifest, const NamedValues& values, const char* type) {
  const std::string space = namespace_of(manifest);
  std::string out;
  for (const Option& option : manifest.flags) {
    out += text(out.empty() ? "" : ", ", ".", option.name, " = ",
                literal(option, values.at(option.name), space));
  }
  return space + type + "{" + out + "}";
}

std::string passes_text(const std::vector<PlannedReduction>& reductions, int part) {
  std::string out;
  for (const PlannedReduction& reduction : reductions) {
    if (reduction.part == part) out += text(out.empty() ? "" : ", ", reduction.pass);
  }
  return "jitstep::Passes<" + out + ">";
}

std::string part_text(const Manifest& manifest, const std::string& body,
                      const std::vector<PlannedReduction>& reductions, int part) {
  const std::string space = namespace_of(manifest);
  const auto own = [&](bool declared, const char* name) {
    return declared ? space + name : text("jitstep::No", name);
  };
  return text("jitstep::Part<", body, ",\n    ", own(manifest.has_hyper, "Hyper"), ", ",
              own(manifest.has_reductions, "Reductions"), ", ", passes_text(reductions, part), ", ",
              own(manifest.has_memory, "Memory"), ", ", manifest.memory.size(), ">");
}

std::string codecs_text(const KernelSpec& spec, const Manifest& rule, const Catalog& catalog,
                        const std::vector<PlannedReduction>& reductions) {
  std::string out;
  for (std::size_t i = 0; i < spec.slots.size(); ++i) {
    const auto& choice = spec.slots[i];
    out += i == 0 ? "\n  " : ",\n  ";
    if (!choice)
      out += "jitstep::Absent";
    else
      out += part_text(catalog.codec(choice->name),
                       codec_type(*choice, rule.slots[i].is_signed, catalog), reductions,
                       static_cast<int>(i) + 2);
  }
  return "jitstep::List<" + out + ">";
}

// ---- what host and compiler must agree on
// ----------------------------------------------------------

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

std::string asserts_text(const KernelSpec& spec, const Catalog& catalog) {
  std::set<std::string> asserts;
  assert_part(asserts, catalog.gradient(), spec.parameter);
  assert_part(asserts, catalog.rule(spec.rule), spec.parameter);
  for (std::size_t i = 0; i < spec.slots.size(); ++i) {
    if (!spec.slots[i]) continue;
    const Manifest& codec = catalog.codec(spec.slots[i]->name);
    assert_part(asserts, codec, spec.parameter);
    const bool option = codec.find("block") != nullptr;
    asserts.insert(text("static_assert(UnitSpec::Codec<", i,
                        ">::Body::block == ", block_of(*spec.slots[i], catalog), ", \"", codec.path,
                        " needs 'static constexpr int block = ", option ? "O.block" : "1",
                        ";'\");\n"));
  }
  const int extra = catalog.weights(spec.weights).extra_bytes();
  asserts.insert(
      text("static_assert(sizeof(UnitSpec::Weights::Extra) == ", std::max(1, extra), ");\n"));
  std::string out;
  for (const auto& one : asserts) out += one;
  return out;
}

// ---- variants
// -----------------------------------------------------------------------------------------

bool is_power(int x) { return x > 0 && std::has_single_bit(static_cast<unsigned>(x)); }

// The smallest and the largest block of the state; no block is smaller than none.
std::pair<int, int> blocks_of(const KernelSpec& spec, const Catalog& catalog) {
  int smallest = kLeaf, largest = kLeaf;
  for (const auto& choice : spec.slots) {
    const int block = choice ? block_of(*choice, catalog) : 1;
    if (block > 1) smallest = std::min(smallest, block);
    largest = std::max(largest, block);
  }
  return {smallest, largest};
}

bool is_random(const KernelSpec& spec, const Catalog& catalog) {
  const auto random = [&](const auto& choice) {
    return choice && catalog.codec(choice->name).random;
  };
  return catalog.weights(spec.weights).random ||
         std::any_of(spec.slots.begin(), spec.slots.end(), random);
}

void check_variant(const KernelSpec& spec, const Variant& v, const Target& target,
                   const Catalog& catalog) {
  const auto need = [&](bool holds, const char* what) {
    if (holds) return;
    throw Error(text("the variant {", v.threads, ", ", v.lanes, ", ", v.vector, ", ", v.chunk,
                     "} (threads, lanes, vector, chunk) cannot run ", unit_name(spec), ": ", what));
  };
  const auto [smallest, largest] = blocks_of(spec, catalog);
  const bool cpu = target.kind == Target::Kind::cpu;
  need(is_power(v.lanes) && is_power(v.vector) && is_power(v.chunk) && v.lanes <= 32,
       "lanes (at most 32), vector and chunk are powers of two");
  need(!cpu || (v.threads == 1 && v.lanes == 1), "threads and lanes are 1 on the CPU");
  need(cpu || (v.threads > 0 && v.threads % 32 == 0 && v.threads <= 1024),
       "threads are a multiple of 32, at most 1024");
  need(v.vector <= kLeaf / v.lanes, "lanes * vector is at most 256");
  need(v.vector <= smallest, "vector is at most the smallest block");
  need(v.chunk >= largest / kLeaf, "a chunk holds the largest block");
}

}  // namespace

std::string codec_type(const CodecChoice& choice, bool is_signed, const Catalog& catalog) {
  const Manifest& codec = catalog.codec(choice.name);
  std::string out =
      namespace_of(codec) + "Codec<jitstep::" + (is_signed ? "Signed" : "NonNegative");
  if (codec.has_flags) out += ", " + flags_text(codec, choice.options, "Options");
  return out + ">";
}

std::string unit_name(const KernelSpec& spec) {
  std::vector<std::string> codecs;
  for (const auto& choice : spec.slots) {
    if (choice) codecs.push_back(choice->name);
  }
  const bool same = std::all_of(codecs.begin(), codecs.end(),
                                [&](const std::string& name) { return name == codecs[0]; });
  if (same && !codecs.empty()) codecs.resize(1);
  std::string out = spec.rule;
  for (const auto& codec : codecs) out += "_" + codec;
  out += "_" + to_string(spec.parameter);
  if (spec.weights != "native") out += "_" + spec.weights;
  return out;
}

std::string include_text(const KernelSpec& spec) {
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

std::string spec_text(const KernelSpec& spec, const Variant& v, const Catalog& catalog) {
  const Manifest& gradient = catalog.gradient();
  const Manifest& rule = catalog.rule(spec.rule);
  const auto reductions = planned_reductions(spec, catalog);
  const std::string space = namespace_of(rule);
  const std::string transform =
      "jitstep::gradient::Gradient<" + flags_text(gradient, spec.gradient_flags, "Flags") + ">";
  const std::string body =
      space + "Rule" + (rule.has_flags ? "<" + flags_text(rule, spec.flags, "Flags") + ">" : "");
  return text("using UnitGradient = ", part_text(gradient, transform, reductions, 0), ";\n",
              "using UnitRule = ", part_text(rule, body, reductions, 1), ";\n",
              "using UnitCodecs = ", codecs_text(spec, rule, catalog, reductions), ";\n",
              "using UnitSpec = jitstep::Spec<UnitGradient, UnitRule, ",
              rule.has_slots ? space + "Slots" : "jitstep::NoSlots", ", UnitCodecs,\n    ",
              "jitstep::weights::", spec.weights, "::Weights<", type_of(spec.parameter), ">, ",
              type_of(spec.gradient), ", ", spec.strided ? "true" : "false", ",\n    ",
              "jitstep::Variant{", v.threads, ", ", v.lanes, ", ", v.vector, ", ", v.chunk, "}>;\n",
              asserts_text(spec, catalog));
}

std::string kernel_text(const KernelSpec& spec, const Variant& variant, const Catalog& catalog) {
  return text(spec_text(spec, variant, catalog), "using Kernel = jitstep::Step<UnitSpec, ",
              pass_count(planned_reductions(spec, catalog)), ">;\n");
}

Unit unit(const KernelSpec& given, const Variant& variant, const Target& target,
          const Catalog& catalog) {
  const KernelSpec spec = complete(given, catalog);
  check_variant(spec, variant, target, catalog);
  Unit made{unit_name(spec),
            include_text(spec) + "#include \"schedules/contract_check.cuh\"\n",
            pass_count(planned_reductions(spec, catalog)),
            {}};
  made.text += kernel_text(spec, variant, catalog);
  made.text += contract_text(spec, catalog);
  const auto add = [&](const std::string& entry, const std::string& function) {
    made.entries.push_back(entry);
    made.text += text("JITSTEP_ENTRY(", entry, ", ", function, ")\n");
  };
  for (int pass = 0; pass < made.passes; ++pass) {
    add(text("jitstep_partials_", pass), text("partials<", pass, ">"));
    add(text("jitstep_finish_", pass), text("finish<", pass, ">"));
  }
  add("jitstep_apply", "apply");
  return made;
}

Variant default_variant(const KernelSpec& given, const Target& target, const Catalog& catalog) {
  const KernelSpec spec = complete(given, catalog);
  const auto [smallest, largest] = blocks_of(spec, catalog);
  const int chunk = std::max(16, largest / kLeaf);
  if (target.kind == Target::Kind::cpu) return {1, 1, smallest, chunk};
  // Eight elements share a draw of random bits.
  return {256, 32, std::min(smallest, is_random(spec, catalog) ? 8 : 4), chunk};
}

}  // namespace jitstep::jit
