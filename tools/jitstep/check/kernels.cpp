#include "kernels.h"

#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/option_values.h>
#include "jit/codegen/spec_text.h"

#include <algorithm>
#include <utility>

#include "../template_file.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using emulation::covering_set;
using emulation::RuleOptions;
using emulation::StepCase;
using emulation::TensorCase;

bool is_small(const std::vector<std::int64_t>& sizes) {
  constexpr double kMost = 1 << 16;
  double elements = 1;
  for (const std::int64_t size : sizes) elements *= static_cast<double>(size);
  return !sizes.empty() && elements <= kMost;
}

bool accepts(const OptionValues& options, const std::vector<std::int64_t>& sizes) {
  try {
    options.validate_for(sizes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Vectors around the size of a leaf (256) and above 16 leaves (4096). Also matrices, and tensors that are misaligned,
// transposed, start at a later step or skip a step. They have one to three dimensions. If the options need more, two
// more tensors have them. If they need sizes, two more have these, unless they are large. Tensors that the rule rejects
// are left out, and those whose number of dimensions gives other flags.
std::vector<TensorCase> tensors_for(const OptionValues& options, const RuleOptions& chosen) {
  const int dims = chosen.dims;
  std::vector<TensorCase> all;
  for (const std::int64_t n : {0, 1, 3, 255, 256, 257, 4097}) all.push_back({.sizes = {n}});
  all.push_back({.sizes = {1000}, .misalignment = 1});
  all.push_back({.sizes = {300}, .skipped_step = 2});
  all.push_back({.sizes = {7, 131}});
  all.push_back({.sizes = {31, 40}, .transposed = true, .grad_transposed = true});
  all.push_back({.sizes = {9, 33}, .skipped_step = 3});
  all.push_back({.sizes = {3, 5, 41}, .first_step = 2});
  if (dims > 3) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(dims), 2);
    sizes.back() = 33;
    all.push_back({.sizes = sizes});
    sizes.front() = 3;
    all.push_back({.sizes = sizes, .skipped_step = 2});
  }
  if (is_small(chosen.sizes)) {
    all.push_back({.sizes = chosen.sizes});
    all.push_back({.sizes = chosen.sizes, .skipped_step = 2});
  }
  const NamedValues flags = flags_of(options, chosen);
  std::erase_if(all, [&](const TensorCase& tensor) {
    return !accepts(options, tensor.sizes) ||
           !options.may_have_flags(flags, static_cast<int>(tensor.sizes.size()));
  });
  return all;
}

std::vector<CodecChoice> codecs_for(const Request& request, Workbenches& benches) {
  std::vector<CodecChoice> codecs;
  const auto load = [&](const std::string& path) -> const Manifest& {
    const Manifest& codec = benches.load(path);
    if (codec.kind != Manifest::Kind::codec)
      throw Error(str_cat(path, " is a rule, but --states takes codecs"));
    return codec;
  };
  for (const std::string& state : request.codecs) {
    codecs.push_back(codec_choice(state, load));
    complete(codecs.back(), benches.plain.catalog);  // throws an Error for an unknown codec
  }
  if (!codecs.empty()) return codecs;
  codecs.push_back({"fp32"});
  for (const std::string& name : benches.plain.catalog.names(Manifest::Kind::codec))
    if (name != "fp32") codecs.push_back({name});
  return codecs;
}

std::vector<Weights> weights_for(const Request& request, const Catalog& catalog) {
  std::vector<Weights> all;
  for (const std::string& name : request.weights)
    for (const Dtype dtype : catalog.weights(name).dtypes) all.push_back({name, dtype});
  // float32 first, because the covering set of options uses the first weight format.
  std::stable_partition(all.begin(), all.end(),
                        [](const Weights& weights) { return weights.dtype == Dtype::float32; });
  if (!all.empty()) return all;
  all = {{}, {"native", Dtype::float64}, {"native", Dtype::bfloat16}};
  for (const std::string& name : catalog.names(Manifest::Kind::weights))
    if (name != "native") all.push_back({name, catalog.weights(name).dtypes.front()});
  return all;
}

bool has_coded_slots(const Manifest& rule, const RuleOptions& chosen, const Catalog& catalog) {
  OptionValues values(rule.name, catalog);
  for (const auto& [name, value] : chosen.values) values.set(name, value);
  const NamedValues flags = flags_of(values, chosen);
  return std::any_of(rule.slots.begin(), rule.slots.end(), [&](const Slot& slot) {
    return slot.codec.empty() && is_stored(slot, flags);
  });
}

// The options that each codec is tried with: the default ones, unless only others have slots for a codec.
std::size_t options_for_codecs(const Manifest& rule, const std::vector<RuleOptions>& options,
                               const Catalog& catalog) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const RuleOptions& chosen) {
    return has_coded_slots(rule, chosen, catalog);
  });
  return found == options.end() ? 0 : static_cast<std::size_t>(found - options.begin());
}

std::vector<Choice> choices_of_rule(const Manifest& rule, const Request& request,
                                    Workbenches& benches) {
  const Catalog& catalog = benches.plain.catalog;
  std::vector<CodecChoice> codecs = codecs_for(request, benches);
  if (std::none_of(rule.slots.begin(), rule.slots.end(),
                   [](const Slot& slot) { return slot.codec.empty(); }))
    codecs.resize(1);
  const std::vector<Weights> weights = weights_for(request, catalog);
  const std::vector<RuleOptions> options = covering_set(rule, catalog);
  const std::size_t chosen = options_for_codecs(rule, options, catalog);
  std::vector<Choice> all;
  if (chosen > 0) all.push_back({.rule = rule.name, .codec = codecs[0], .weights = weights[0]});
  for (const CodecChoice& codec : codecs)
    all.push_back(
        {.rule = rule.name, .options = options[chosen], .codec = codec, .weights = weights[0]});
  for (std::size_t i = 1; i < weights.size(); ++i) {
    // State of float64 parameters is float64, as in an optimizer.
    const bool wide = weights[i].dtype == Dtype::float64;
    all.push_back({.rule = rule.name,
                   .codec = wide ? CodecChoice{"fp32"} : codecs[0],
                   .weights = weights[i]});
  }
  for (std::size_t i = 1; i < options.size(); ++i)
    if (i != chosen)
      all.push_back(
          {.rule = rule.name, .options = options[i], .codec = codecs[0], .weights = weights[0]});
  return all;
}

// adamw has a signed and a non-negative slot, lamb has reductions over the tensor, and sgd has one slot.
std::vector<Choice> choices_of_codec(const Manifest& codec, const Request& request) {
  if (!request.codecs.empty() || !request.weights.empty())
    throw Error(str_cat(request.file, " is a codec, but --states and --weights are for rules"));
  std::vector<Choice> all;
  for (const NamedValues& options : covering_set(codec))
    all.push_back({.rule = "adamw", .codec = {codec.name, options}, .measures_codec = true});
  all.push_back({.rule = "adamw",
                 .codec = {codec.name},
                 .weights = {.name = "native", .dtype = Dtype::bfloat16}});
  all.push_back({.rule = "lamb", .codec = {codec.name}});
  all.push_back({.rule = "sgd", .options = {{{"momentum", 0.9}}}, .codec = {codec.name}});
  return all;
}

}  // namespace

std::vector<Choice> choices(const Manifest& file, const Request& request, Workbenches& benches) {
  return file.kind == Manifest::Kind::rule ? choices_of_rule(file, request, benches)
                                           : choices_of_codec(file, request);
}

namespace {

// The kernel's name, then the codec's and rule's options that differ from their defaults, then active gradient flags.
std::string name_of(const Choice& choice, const Plan& plan) {
  std::string name = plan.name;
  if (!choice.codec.options.empty()) name += " " + to_string(choice.codec);
  NamedValues own = choice.options.values;
  std::erase_if(own, [&](const auto& value) { return plan.rule().find(value.first) == nullptr; });
  if (!own.empty()) name += " " + to_string(own);
  const std::vector<std::int64_t>& sizes = choice.options.sizes;
  if (!sizes.empty())
    name += str_cat(" sizes=", joined(sizes, "x", [](std::int64_t n) { return str_cat(n); }));
  else if (choice.options.dims != RuleOptions().dims)
    name += str_cat(" dims=", choice.options.dims);
  for (const auto& [flag, value] : plan.spec.gradient_flags)
    if (value == Value(true)) name += " " + flag;
  return name;
}

}  // namespace

Candidate candidate(const Choice& choice, const Catalog& catalog) {
  StepCase steps{.spec = {.rule = choice.rule,
                          .state = {.slots = {},
                                    .weights = choice.weights.name,
                                    .dtype = choice.weights.dtype},
                          .gradient = choice.weights.dtype},
                 .options = choice.options.values,
                 .tensors = {},
                 .steps = 4,
                 .dims = choice.options.dims,
                 .sizes = choice.options.sizes};
  const bool wide = choice.weights.dtype == Dtype::float64;
  for (const Slot& slot : catalog.rule(choice.rule).slots)
    steps.spec.state.slots.emplace_back(slot.codec.empty() || wide ? choice.codec
                                                                   : CodecChoice{slot.codec});
  steps.tensors = tensors_for(options_of(steps, catalog), choice.options);
  return {name_of(choice, kernel_of(steps, catalog)), steps, choice.options.values.empty(),
          choice.measures_codec};
}

}  // namespace jitstep::tool::check
