#include "jitstep/jit/formats.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr std::int64_t kMinQuantizedSize = 4096;

bool is_named(const Slot& slot, const std::string& name) {
  return slot.name == name || slot.torch_name == name;
}

std::string listed_slots(const Manifest& rule) {
  return rule.slots.empty() ? "none" : joined(rule.slots, ", ", &Slot::name);
}

const CodecChoice kPlain{"fp32"};

CodecChoice chosen(const Slot& slot, const Formats& formats, const std::string& rule_default) {
  for (const auto& [name, codec] : formats.slots)
    if (is_named(slot, name)) return codec;
  if (formats.state) return *formats.state;
  return rule_default.empty() ? kPlain : CodecChoice{rule_default};
}

// Whether a slot of this parameter is kept plain whatever codec was chosen.
bool is_kept_plain(const CodecChoice& codec, const ParameterKind& parameter, std::int64_t least) {
  if (parameter.dtype == Dtype::float64) return true;
  return parameter.elements < least && default_catalog().codec(codec.name).block_scaled();
}

std::string weights_for(Dtype dtype, const Formats& formats) {
  const std::string chosen = formats.weights.value_or("native");
  const auto& known = default_catalog().weights(chosen).dtypes;
  return std::find(known.begin(), known.end(), dtype) != known.end() ? chosen : "native";
}

StateFormat state_format(const Manifest& rule, const NamedValues& flags, const Formats& formats,
                         const ParameterKind& parameter) {
  StateFormat state{.weights = weights_for(parameter.dtype, formats), .dtype = parameter.dtype};
  const std::string rule_default = rule.default_state(flags);
  const std::int64_t least = formats.min_quantized_size.value_or(
      rule.min_quantized_size(flags).value_or(kMinQuantizedSize));
  for (const auto& slot : rule.slots) {
    const CodecChoice codec = chosen(slot, formats, rule_default);
    state.slots.emplace_back(is_kept_plain(codec, parameter, least) ? kPlain : codec);
  }
  return state;
}

}  // namespace

void Formats::inherit(const Formats& defaults) {
  if (!state) {
    state = defaults.state;
    slots.insert(defaults.slots.begin(), defaults.slots.end());
  }
  if (!weights) weights = defaults.weights;
  if (!seed) seed = defaults.seed;
  if (!min_quantized_size) min_quantized_size = defaults.min_quantized_size;
}

void check_formats(const Formats& formats, const Manifest& rule) {
  if (formats.state) complete(*formats.state);
  for (const auto& [name, codec] : formats.slots) {
    const auto& slots = rule.slots;
    if (std::none_of(slots.begin(), slots.end(),
                     [&wanted = name](const Slot& slot) { return is_named(slot, wanted); }))
      throw Error(text(rule.name, " has no slot \"", name, "\"; it has ", listed_slots(rule)));
    complete(codec);
  }
  if (formats.weights) default_catalog().weights(*formats.weights);
  if (formats.min_quantized_size && *formats.min_quantized_size < 0)
    throw Error(text("min_quantized_size is ", *formats.min_quantized_size,
                     " and must be >= 0; 0 quantises the state of every parameter"));
}

Plan resolve(const OptionValues& values, const Formats& formats, const ParameterKind& parameter) {
  const NamedValues flags = values.flags(parameter.dims);
  return resolve({.rule = values.rule().name,
                  .flags = flags,
                  .gradient_flags = values.gradient_flags(),
                  .state = state_format(values.rule(), flags, formats, parameter),
                  .gradient = parameter.dtype});
}

}  // namespace jitstep::jit
