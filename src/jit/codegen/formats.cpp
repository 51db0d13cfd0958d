#include "jitstep/jit/plan.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jit/codegen/passes.h"
#include "jit/manifest/parameter_sizes.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

constexpr std::int64_t kMinQuantizedSize = 4096;

// The slot with this name, its own or torch's. Null if there is none.
const Slot* named_slot(const Manifest& rule, const std::string& name) {
  const auto found = std::find_if(rule.slots.begin(), rule.slots.end(),
                                  [&](const Slot& slot) { return slot.is_named(name); });
  return found == rule.slots.end() ? nullptr : &*found;
}

// The codec that the user chose for this slot by name. Null if none.
const CodecChoice* own_choice(const Slot& slot, const Formats& formats) {
  for (const auto& [name, codec] : formats.slots)
    if (slot.is_named(name)) return &codec;
  return nullptr;
}

[[noreturn]] void fail_no_slot(const Manifest& rule, const std::string& name) {
  std::vector<std::string> names, torch_names;
  for (const Slot& slot : rule.slots) {
    names.push_back(slot.name);
    torch_names.push_back(slot.torch_name);
  }
  const std::string listed = names.empty() ? "none" : joined(names);
  names.insert(names.end(), torch_names.begin(), torch_names.end());
  throw Error(str_cat(rule.name, " has no slot \"", name, "\"", did_you_mean(name, names),
                      ". Slots: ", listed));
}

const CodecChoice kPlain{"fp32"};
const std::string kNative = "native";

CodecChoice chosen(const Slot& slot, const Formats& formats, const std::string& rule_default) {
  if (const CodecChoice* const own = own_choice(slot, formats)) return *own;
  if (!slot.codec.empty()) return CodecChoice{slot.codec};
  if (formats.state) return *formats.state;
  return rule_default.empty() ? kPlain : CodecChoice{rule_default};
}

// Sets a codec's option `dims` to the parameter's number of dimensions, clamped to the option's range.
void set_dims(CodecChoice& choice, const Manifest& codec, int dims) {
  const Option* const option = codec.find("dims");
  if (option == nullptr) return;
  const Constraint& range = option->constraint;
  choice.options["dims"] = std::clamp<double>(dims, range.low.value(), range.high.value());
}

// Whether this parameter's slots stay unquantized, for any chosen codec.
bool stays_plain(const Manifest& codec, const ParameterKind& parameter, std::int64_t least) {
  if (parameter.dtype == Dtype::float64) return true;
  return parameter.elements < least && codec.block_scaled();
}

// If the user named a signed slot and a codec for non-negative values, jitstep must not replace the codec silently.
void check_sign(const CodecChoice& choice, const Slot& slot, const OptionValues& values) {
  const Manifest& codec = values.catalog().codec(choice.name);
  if (!slot.is_signed || codec.signed_slots.empty()) return;
  throw Error(str_cat("the codec ", codec.name, " cannot store the slot ", slot.name, " of ",
                      values.rule().name, ": the codec stores only non-negative values. ",
                      "Choose another codec for this slot, such as ", codec.signed_slots, "."));
}

std::string weights_for(Dtype dtype, const Formats& formats, const OptionValues& values) {
  const Manifest& rule = values.rule();
  const std::string& by_rule = rule.default_weights.empty() ? kNative : rule.default_weights;
  const std::string chosen = formats.weights.value_or(by_rule);
  const auto& known = values.catalog().weights(chosen).dtypes;
  return std::find(known.begin(), known.end(), dtype) != known.end() ? chosen : kNative;
}

// The minimum number of elements for codecs with scales. 0: any parameter of any shape.
std::int64_t least_elements(const Formats& formats, const Manifest& rule,
                            const NamedValues& flags) {
  return formats.min_quantized_size.value_or(
      rule.min_quantized_size(flags).value_or(kMinQuantizedSize));
}

StateFormat state_format(const OptionValues& values, const NamedValues& flags,
                         const Formats& formats, const ParameterKind& parameter) {
  const Manifest& rule = values.rule();
  StateFormat state{.weights = weights_for(parameter.dtype, formats, values),
                    .dtype = parameter.dtype};
  const std::string rule_default = rule.default_state(flags);
  const std::int64_t least = least_elements(formats, rule, flags);
  for (const auto& slot : rule.slots) {
    CodecChoice choice = chosen(slot, formats, rule_default);
    const Manifest& codec = values.catalog().codec(choice.name);
    if (stays_plain(codec, parameter, least))
      choice = kPlain;
    else if (parameter.dims < 2 && !codec.vectors.empty())
      choice = CodecChoice{codec.vectors};
    else
      set_dims(choice, codec, parameter.dims);
    state.slots.emplace_back(choice);
  }
  return state;
}

ParameterSizes known_sizes(const ParameterKind& parameter) {
  return parameter.sizes.empty() && parameter.dims < 2 ? ParameterSizes{parameter.elements}
                                                       : parameter.sizes;
}

// Bytes of the auxiliary state of a slot's codec, both buffers.
std::int64_t aux_state_bytes(const Plan& plan, std::size_t slot,
                             const std::vector<std::int64_t>& sizes) {
  std::int64_t bytes = 0;
  for (const ResolvedAuxState& field : plan.aux_state) {
    if (field.component != codec_component(static_cast<int>(slot))) continue;
    const unsigned reduced = field.domain.reduced(static_cast<int>(sizes.size()));
    std::int64_t entries = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if ((reduced >> d & 1u) == 0) entries *= sizes[d];
    bytes += 2 * field.bytes * entries;
  }
  return bytes;
}

// If rows and columns are short, their auxiliary state may need more memory than the elements in fp32. Such slots use
// the codec for vectors. Returns whether there are any.
bool use_vector_codecs(StateFormat& state, const Plan& plan, const ParameterKind& parameter) {
  bool any = false;
  for (std::size_t slot = 0; slot < state.slots.size(); ++slot) {
    const Manifest* const codec = plan.codec(static_cast<int>(slot));
    if (codec == nullptr || codec->vectors.empty()) continue;
    if (aux_state_bytes(plan, slot, parameter.sizes) <= 4 * parameter.elements) continue;
    state.slots[slot] = CodecChoice{codec->vectors};
    any = true;
  }
  return any;
}

void check_dimensions(const Plan& plan) {
  if (plan.sizes.size() > kMaxDims && reads_dimensions(plan))
    throw Error(str_cat(plan.rule().name, ": the parameter has ", plan.sizes.size(),
                        " dimensions, and the rule or a codec reads them. At most ", kMaxDims,
                        " are supported. Reshape it."));
}

}  // namespace

void Formats::inherit(const Formats& defaults, const Manifest& rule) {
  const Formats own = *this;
  for (const auto& [name, codec] : defaults.slots) {
    const Slot* const slot = named_slot(rule, name);
    const bool hidden = own.state && (slot == nullptr || slot->codec.empty());
    if (!hidden && (slot == nullptr || own_choice(*slot, own) == nullptr)) slots[name] = codec;
  }
  if (!state) state = defaults.state;
  if (!weights) weights = defaults.weights;
  if (!seed) seed = defaults.seed;
  if (!min_quantized_size) min_quantized_size = defaults.min_quantized_size;
}

void check_formats(const Formats& formats, const OptionValues& values) {
  const Manifest& rule = values.rule();
  const auto check = [&](const CodecChoice& codec) { complete(codec, values.catalog(), &rule); };
  if (formats.state) check(*formats.state);
  std::map<const Slot*, std::string> names;
  for (const auto& [name, codec] : formats.slots) {
    const Slot* const slot = named_slot(rule, name);
    if (slot == nullptr) fail_no_slot(rule, name);
    const auto [other, first] = names.try_emplace(slot, name);
    if (!first && formats.slots.at(other->second) != codec)
      throw Error(str_cat("the slot ", slot->name, " of ", rule.name, " has two codecs, as \"",
                          other->second, "\" and as \"", name, "\". Name it once."));
    check(codec);
    check_sign(codec, *slot, values);
  }
  if (formats.weights) values.catalog().weights(*formats.weights);
  if (formats.min_quantized_size && *formats.min_quantized_size < 0)
    throw Error(str_cat("min_quantized_size is ", *formats.min_quantized_size,
                        " and must be >= 0. 0 quantizes the state of every parameter."));
}

Plan resolve(const OptionValues& values, const Formats& formats, const ParameterKind& parameter) {
  const ParameterSizes known = known_sizes(parameter);
  const ParameterSizes sizes = known.empty() ? typical_sizes(parameter.dims) : known;
  values.validate_for(sizes);
  const NamedValues flags = values.flags_for(sizes);
  StateFormat state = state_format(values, flags, formats, parameter);
  const auto plan = [&] {
    Plan result = resolve({.rule = values.rule().name,
                           .flags = flags,
                           .gradient_flags = values.gradient_flags(),
                           .state = state,
                           .gradient = parameter.dtype},
                          values.catalog());
    result.sizes = known;
    return result;
  };
  Plan result = plan();
  const bool any_shape =
      parameter.sizes.empty() || least_elements(formats, values.rule(), flags) == 0;
  if (!any_shape && use_vector_codecs(state, result, parameter)) result = plan();
  check_dimensions(result);
  return result;
}

}  // namespace jitstep::jit
