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
  const auto meant = [&](const ParameterIndex& index) {
    return predicate(index.name, parameter.tensor);
  };
  const auto& indices = parameter.indices;
  return std::any_of(names.begin(), names.end(), named) ||
         (predicate && std::any_of(indices.begin(), indices.end(), meant));
}

// A name with a slip of the pen would choose nothing, unseen.
void check_names(const std::vector<ModuleParameter>& parameters,
                 const std::vector<std::string>& names) {
  for (const std::string& name : names)
    TORCH_CHECK(std::any_of(parameters.begin(), parameters.end(),
                            [&](const auto& one) { return one.is_named(name); }),
                "no name of a trained parameter contains \"", name, "\"; the first is ",
                parameters.front().indices.front().name);
}

bool is_excluded(const ModuleParameter& parameter, const DecayExclusions& exclusions) {
  return parameter.tensor.dim() < 2 || parameter.is_bias() || parameter.in(Layer::normalisation) ||
         (exclusions.embeddings && parameter.in(Layer::embedding)) ||
         is_chosen(parameter, exclusions.names, exclusions.predicate);
}

void check_named(const Options& options) {
  TORCH_CHECK(!options.rule().empty(),
              "GenericOptions name no rule until an optimizer has taken them; give ",
              "*make_options(\"adamw\", options) for them, or decay_groups the name of the rule");
}

bool has(const Options& options, const std::string& name) {
  const auto& names = options.names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Otherwise its two groups would be the same.
void check_decays(const Options& options) {
  TORCH_CHECK(has(options, "weight_decay") || has(options, "adapt"), "decay_groups: the rule ",
              options.rule(), " has no option weight_decay and no adapt, so that its groups ",
              "would not differ; give the optimizer the module's parameters() instead");
}

std::unique_ptr<Options> without_decay(const Options& options, bool always_adapt) {
  auto out = options.copy();
  if (has(*out, "weight_decay")) out->put("weight_decay", 0.0);
  if (has(*out, "adapt") && !always_adapt) out->put("adapt", false);
  return out;
}

// Whether parameters of so many dimensions may be stepped under these options.
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
  TORCH_CHECK(!takes(muon, 1), "muon_groups: the first options are of ", muon.rule(),
              ", which takes parameters of any shape, and are meant for a rule of matrices alone, ",
              "such as MuonOptions; for two other rules make the groups yourself");
  TORCH_CHECK(takes(others, 1), "muon_groups: the second options are of ", others.rule(),
              ", which takes matrices alone, and are meant for everything else; give it ",
              "AdamWOptions or those of another rule for any shape");
}

bool is_matrix(const ModuleParameter& parameter) {
  return parameter.tensor.dim() == 2 && !parameter.is_bias() && !parameter.in(Layer::normalisation);
}

// By every place where one is registered: a last layer that shares the embedding's weight comes out as that.
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

// The parameters that are chosen come second.
template <class Chosen>
std::vector<OptimizerParamGroup> split(const std::vector<ModuleParameter>& parameters,
                                       const Chosen& chosen, std::unique_ptr<Options> first,
                                       std::unique_ptr<Options> second) {
  std::vector<torch::Tensor> rest, taken;
  for (const ModuleParameter& one : parameters) (chosen(one) ? taken : rest).push_back(one.tensor);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::move(rest), std::move(first));
  groups.emplace_back(std::move(taken), std::move(second));
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
  const auto bound = rethrow_as_torch_error([&] { return make_options(rule, options); });
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
  TORCH_CHECK(!groups.front().params().empty(),
              "muon_groups: no trained parameter is a hidden matrix for ", muon.rule(), "; ",
              output != nullptr && is_hidden(*output)
                  ? "set last_layer to false to take the last layer's, or "
                  : "",
              "use an optimizer of ", others.rule(), " alone");
  return groups;
}

}  // namespace jitstep
