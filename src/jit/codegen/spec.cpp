#include "jitstep/jit/spec.h"

#include <algorithm>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jit/codegen/complete.h"
#include "jit/manifest/codec_options.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

template <class Named>
std::string listed(const std::vector<Named>& all) {
  return all.empty() ? "none" : joined(all, ", ", &Named::name);
}

std::vector<std::string> names_of(const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) names.push_back(option.name);
  return names;
}

// `values`, overridden by `given`, which is checked against the declarations.
NamedValues override(NamedValues values, const NamedValues& given, const Manifest& manifest) {
  for (const auto& [name, value] : given) {
    const auto declared =
        std::find_if(manifest.flags.begin(), manifest.flags.end(),
                     [&wanted = name](const Option& option) { return option.name == wanted; });
    if (declared == manifest.flags.end()) {
      throw Error(str_cat(manifest.name, " has no flag \"", name, "\"",
                          did_you_mean(name, names_of(manifest.flags)),
                          ". Flags: ", listed(manifest.flags)));
    }
    auto problem = declared->type_problem(value);
    if (problem)
      problem = name + " " + *problem;
    else
      problem = declared->range_problem(value);
    if (problem) throw Error(manifest.name + ": " + *problem);
    values[name] = value;
  }
  return values;
}

// The codec itself, or the one that it declares for signed slots.
CodecChoice for_slot(const CodecChoice& choice, const Slot& slot, const Catalog& catalog) {
  const std::string& other = catalog.codec(choice.name).signed_slots;
  return slot.is_signed && !other.empty() ? CodecChoice{other} : choice;
}

void complete_slots(KernelSpec& spec, const Manifest& rule, const Catalog& catalog) {
  auto& slots = spec.state.slots;
  if (slots.size() != rule.slots.size()) {
    throw Error(str_cat(rule.name, " has ", rule.slots.size(), " slots (", listed(rule.slots),
                        "), but the spec lists ", slots.size()));
  }
  for (std::size_t i = 0; i < rule.slots.size(); ++i) {
    const Slot& slot = rule.slots[i];
    auto& choice = slots[i];
    if (!is_stored(slot, spec.flags))
      choice.reset();
    else if (choice)
      choice = complete(for_slot(*choice, slot, catalog), catalog, &rule);
    else
      throw Error(str_cat(rule.name, ": the slot ", slot.name,
                          " has no codec. Set one in StateFormat::slots, such as fp32."));
  }
}

void check_weights(Dtype parameter, const Manifest& weights) {
  const auto& dtypes = weights.dtypes;
  if (std::find(dtypes.begin(), dtypes.end(), parameter) != dtypes.end()) return;
  const std::string known = joined(dtypes, ", ", [](Dtype dtype) { return to_string(dtype); });
  throw Error(str_cat("the weight format \"", weights.name, "\" is for ", known,
                      " parameters, not ", to_string(parameter)));
}

}  // namespace

std::string to_string(const CodecChoice& choice) {
  const std::string options = to_string(choice.options);
  return options.empty() ? choice.name : choice.name + "(" + options + ")";
}

CodecChoice complete(const CodecChoice& choice, const Catalog& catalog, const Manifest* rule) {
  return {choice.name, codec_options(catalog.codec(choice.name), choice.options, rule)};
}

bool same_codes(const CodecChoice& a, const CodecChoice& b, const Catalog& catalog) {
  if (a.name != b.name) return false;
  const auto constants = [&](const CodecChoice& choice) {
    NamedValues values = complete(choice, catalog).options;
    for (const Option& number : catalog.codec(choice.name).hyper)
      values.erase(number.name);
    return values;
  };
  return constants(a) == constants(b);
}

std::string to_string(const KernelSpec& spec) {
  std::string out = spec.rule + "(" + to_string(spec.flags) + ")";
  if (!spec.gradient_flags.empty()) out += " gradient(" + to_string(spec.gradient_flags) + ")";
  out += " state[";
  for (const auto& choice : spec.state.slots) {
    if (&choice != &spec.state.slots[0]) out += ", ";
    out += choice ? to_string(*choice) : "-";
  }
  out += "] " + spec.state.weights + " " + to_string(spec.state.dtype);
  out += " gradients " + to_string(spec.gradient);
  return spec.strided ? out + " strided" : out;
}

bool is_stored(const Slot& slot, const NamedValues& flags) {
  return !slot.condition || slot.condition->holds(flags);
}

KernelSpec complete(const KernelSpec& spec, const Catalog& catalog) {
  KernelSpec whole = spec;
  const Manifest& rule = catalog.rule(spec.rule);
  const OptionValues defaults(rule, catalog.gradient());
  whole.flags = override(defaults.flags(), spec.flags, rule);
  whole.gradient_flags =
      override(defaults.gradient_flags(), spec.gradient_flags, catalog.gradient());
  complete_slots(whole, rule, catalog);
  check_weights(whole.state.dtype, catalog.weights(whole.state.weights));
  return whole;
}

}  // namespace jitstep::jit
