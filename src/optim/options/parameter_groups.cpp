#include "jitstep/parameter_groups.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <utility>

#include "jitstep/jit/error.h"
#include "optim/options/module_parameters.h"
#include "optim/tensor/errors.h"

namespace jitstep {
namespace {

using torch::optim::OptimizerParamGroup;

bool is_chosen(const ModuleParameter& parameter, const std::vector<std::string>& names,
               const ParameterPredicate& predicate) {
  const auto named = [&](const std::string& name) { return parameter.is_named(name); };
  const auto matches = [&](const ParameterIndex& index) {
    return predicate(index.name, parameter.tensor);
  };
  const auto& indices = parameter.indices;
  return std::any_of(names.begin(), names.end(), named) ||
         (predicate && std::any_of(indices.begin(), indices.end(), matches));
}

// A misspelled name would silently match no parameter.
void check_names(const std::vector<ModuleParameter>& parameters,
                 const std::vector<std::string>& names) {
  for (const std::string& name : names)
    TORCH_CHECK(std::any_of(parameters.begin(), parameters.end(),
                            [&](const auto& one) { return one.is_named(name); }),
                "jitstep: no name of a trained parameter contains \"", name,
                "\". Check the spelling; the first name is \"",
                parameters.front().indices.front().name, "\".");
}

bool is_excluded(const ModuleParameter& parameter, const DecayExclusions& exclusions) {
  return parameter.tensor.dim() < 2 || parameter.is_bias() || parameter.in(Layer::normalization) ||
         (exclusions.embeddings && parameter.in(Layer::embedding)) ||
         is_chosen(parameter, exclusions.names, exclusions.predicate);
}

void check_named(const Options& options) {
  TORCH_CHECK(!options.rule().empty(),
              "jitstep: GenericOptions name no optimizer before an optimizer uses them. Pass ",
              "*make_options(\"adamw\", options), or pass the optimizer's name to decay_groups.");
}

bool has(const Options& options, const std::string& name) {
  const auto& names = options.names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Without these options the two groups would be equal.
void check_decays(const Options& options) {
  TORCH_CHECK(has(options, "weight_decay") || has(options, "adapt"),
              "jitstep: decay_groups cannot split parameters for ", options.rule(),
              ": it has no option weight_decay and no adapt, so both groups would be equal. Give ",
              "the optimizer the module's parameters() instead.");
}

std::unique_ptr<Options> without_decay(const Options& options, bool always_adapt) {
  auto out = options.copy();
  if (has(*out, "weight_decay")) out->put("weight_decay", 0.0);
  if (has(*out, "adapt") && !always_adapt) out->put("adapt", false);
  return out;
}

// True if the optimizer accepts parameters of so many dimensions under these options.
bool takes(const Options& options, int dims) {
  try {
    options.values().validate_dims(dims);
    return true;
  } catch (const jit::Error&) {
    return false;
  }
}

void check_rules(const Options& muon, const Options& others) {
  check_named(muon);
  check_named(others);
  TORCH_CHECK(!takes(muon, 1), "jitstep: wrong first options of muon_groups: ", muon.rule(),
              " accepts parameters of any shape. Pass options of an optimizer for matrices only, ",
              "such as MuonOptions. For two other optimizers, make the groups yourself.");
  TORCH_CHECK(takes(others, 1), "jitstep: wrong second options of muon_groups: ", others.rule(),
              " accepts matrices only, and these options are for all other parameters. Pass ",
              "AdamWOptions, or options of another optimizer for any shape.");
}

bool is_matrix(const ModuleParameter& parameter) {
  return parameter.tensor.dim() == 2 && !parameter.is_bias() && !parameter.in(Layer::normalization);
}

// The last matrix by order of registration. It considers all registrations, so that a last layer that shares the
// embedding's weight is found.
const ModuleParameter* last_matrix(const std::vector<ModuleParameter>& parameters) {
  const ModuleParameter* last = nullptr;
  std::size_t number = 0;
  for (const ModuleParameter& one : parameters)
    for (const ParameterIndex& index : one.indices) {
      if (!is_matrix(one) || index.layer == Layer::embedding || index.number < number) continue;
      last = &one;
      number = index.number;
    }
  return last;
}

// Two groups: parameters for which `chosen` is false with the options `first`, the others with `second`.
template <class Chosen>
std::vector<OptimizerParamGroup> split(const std::vector<ModuleParameter>& parameters,
                                       const Chosen& chosen, std::unique_ptr<Options> first,
                                       std::unique_ptr<Options> second) {
  std::vector<torch::Tensor> rest, selected;
  for (const ModuleParameter& one : parameters)
    (chosen(one) ? selected : rest).push_back(one.tensor);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::move(rest), std::move(first));
  groups.emplace_back(std::move(selected), std::move(second));
  return groups;
}

}  // namespace

std::vector<OptimizerParamGroup> decay_groups(const torch::nn::Module& module,
                                              const Options& options,
                                              const DecayExclusions& exclusions) {
  check_named(options);
  check_decays(options);
  const auto parameters = trained_parameters(module);
  check_names(parameters, exclusions.names);
  return split(
      parameters, [&](const ModuleParameter& one) { return is_excluded(one, exclusions); },
      options.copy(), without_decay(options, exclusions.always_adapt));
}

std::vector<OptimizerParamGroup> decay_groups(const torch::nn::Module& module,
                                              const std::string& rule,
                                              const GenericOptions& options,
                                              const DecayExclusions& exclusions) {
  const auto bound = as_torch_error([&] { return make_options(rule, options); });
  return decay_groups(module, *bound, exclusions);
}

std::vector<OptimizerParamGroup> muon_groups(const torch::nn::Module& module, const Options& muon,
                                             const Options& others,
                                             const MuonExclusions& exclusions) {
  check_rules(muon, others);
  const auto parameters = trained_parameters(module);
  check_names(parameters, exclusions.names);
  const auto is_hidden = [&](const ModuleParameter& one) {
    return is_matrix(one) && !(exclusions.embeddings && one.in(Layer::embedding)) &&
           !is_chosen(one, exclusions.names, exclusions.predicate);
  };
  const ModuleParameter* const output = exclusions.last_layer ? last_matrix(parameters) : nullptr;
  auto groups = split(
      parameters, [&](const ModuleParameter& one) { return !is_hidden(one) || &one == output; },
      muon.copy(), others.copy());
  TORCH_CHECK(!groups.front().params().empty(), "jitstep: muon_groups found no hidden matrix for ",
              muon.rule(), " among the trained parameters. ",
              output != nullptr && is_hidden(*output)
                  ? "Set last_layer to false to include the last layer's, or use "
                  : "Use ",
              "an optimizer of ", others.rule(), " alone.");
  return groups;
}

}  // namespace jitstep
