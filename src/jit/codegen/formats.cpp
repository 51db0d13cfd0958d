#include "jitstep/jit/formats.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/plan.h"

namespace jitstep {
namespace {

constexpr std::int64_t kMinQuantizedSize = 4096;

bool is_named(const jit::Slot& slot, const std::string& name) {
  return slot.name == name || slot.torch_name == name;
}

std::string listed_slots(const jit::Manifest& rule) {
  std::string out;
  for (const auto& slot : rule.slots) out += (out.empty() ? "" : ", ") + slot.name;
  return out.empty() ? "none" : out;
}

jit::CodecChoice chosen(const jit::Slot& slot, const Formats& formats,
                        const std::string& rule_default) {
  for (const auto& [name, codec] : formats.slots)
    if (is_named(slot, name)) return codec;
  if (formats.state) return *formats.state;
  return {rule_default.empty() ? "fp32" : rule_default};
}

void check_wide(const jit::KernelSpec& spec) {
  if (spec.parameter != jit::Dtype::float64) return;
  for (const auto& codec : spec.slots) {
    if (codec && codec->name != "fp32")
      throw jit::Error(jit::text(spec.rule,
                                 ": float64 parameters keep their state in float64; use ",
                                 "the codec fp32 for them, not ", codec->name));
  }
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

void check_formats(const Formats& formats, const jit::Manifest& rule) {
  if (formats.state) jit::complete(*formats.state);
  for (const auto& [name, codec] : formats.slots) {
    const auto& slots = rule.slots;
    if (std::none_of(slots.begin(), slots.end(),
                     [&wanted = name](const jit::Slot& slot) { return is_named(slot, wanted); }))
      throw jit::Error(
          jit::text(rule.name, " has no slot \"", name, "\"; it has ", listed_slots(rule)));
    jit::complete(codec);
  }
  if (formats.weights) jit::default_catalog().weights(*formats.weights);
  if (formats.min_quantized_size && *formats.min_quantized_size < 0)
    throw jit::Error(jit::text("min_quantized_size is ", *formats.min_quantized_size,
                               " and must be >= 0; 0 quantises the state of every parameter"));
}

jit::KernelSpec kernel_spec(const jit::OptionValues& values, const Formats& formats,
                            const ParameterKind& parameter) {
  const jit::Manifest& rule = values.rule();
  jit::KernelSpec spec;
  spec.rule = rule.name;
  spec.flags = values.flags(parameter.dims);
  spec.gradient_flags = values.gradient_flags();
  spec.weights = formats.weights.value_or("native");
  spec.parameter = spec.gradient = parameter.dtype;
  const std::string rule_default = rule.default_state(spec.flags);
  const std::int64_t least = formats.min_quantized_size.value_or(
      rule.min_quantized_size(spec.flags).value_or(kMinQuantizedSize));
  for (const auto& slot : rule.slots) {
    jit::CodecChoice codec = chosen(slot, formats, rule_default);
    const bool small = parameter.elements < least;
    if (small && jit::default_catalog().codec(codec.name).block_scaled()) codec = {"fp32"};
    spec.slots.emplace_back(codec);
  }
  spec = jit::resolve(spec).spec;
  check_wide(spec);
  return spec;
}

}  // namespace jitstep
