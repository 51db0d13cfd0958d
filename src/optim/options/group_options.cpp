#include "optim/options/group_options.h"

#include "optim/tensor/errors.h"

namespace jitstep {

std::unique_ptr<Options> checked_options(const std::string& rule, const GenericOptions& given,
                                         const jit::Catalog& catalog) {
  return as_torch_error([&] { return make_options(rule, given, catalog); });
}

std::unique_ptr<Options> options_like(const Options& defaults,
                                      const torch::optim::OptimizerOptions& given) {
  const auto* const generic = dynamic_cast<const GenericOptions*>(&given);
  if (generic != nullptr && generic->rule().empty())
    return checked_options(defaults.rule(), *generic, defaults.catalog());
  const auto* const ours = dynamic_cast<const Options*>(&given);
  TORCH_CHECK(ours != nullptr,
              "jitstep: the options of a parameter group belong to another optimizer than ",
              defaults.rule(),
              ": their class is not one of jitstep. Use jitstep's options class of ",
              defaults.rule(), ", or jitstep::GenericOptions.");
  TORCH_CHECK(ours->rule() == defaults.rule(),
              "jitstep: the options of a parameter group belong to ", "another optimizer than ",
              defaults.rule(), ": they are options of ", ours->rule(),
              ". To mix optimizers, as with muon_groups, use jitstep::Optimizer(groups).");
  TORCH_CHECK(&ours->manifest() == &defaults.manifest(),
              "jitstep: the options of a parameter group are of another version of ",
              defaults.rule(), ": its file was reloaded. Create new options for this optimizer.");
  return ours->copy();
}

const Options& checked_options_of(const torch::optim::OptimizerParamGroup& group) {
  const auto* const ours =
      group.has_options() ? dynamic_cast<const Options*>(&group.options()) : nullptr;
  TORCH_CHECK(ours != nullptr, "jitstep: the options of a parameter group were ",
              group.has_options() ? "replaced by those of another optimizer" : "removed",
              ". Use jitstep's options.");
  return *ours;
}

const Options& options_with_rule(const torch::optim::OptimizerParamGroup& group) {
  const auto* const ours =
      group.has_options() ? dynamic_cast<const Options*>(&group.options()) : nullptr;
  TORCH_CHECK(ours != nullptr && !ours->rule().empty(),
              "jitstep: a parameter group of Optimizer(groups) does not name its optimizer. Give ",
              "it options such as jitstep::AdamWOptions or *jitstep::make_options(\"adamw\").");
  return *ours;
}

}  // namespace jitstep
