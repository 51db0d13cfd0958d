#include "jitstep/optimizer.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "jit/codegen/spec_text.h"
#include "jitstep/jit/catalog.h"
#include "optim/optimizer/offload.h"
#include "optim/options/group_options.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// Fixes the current revisions of rule and codecs for this optimizer, so that a reload does not affect it.
std::unique_ptr<Options> with_current_revisions(std::unique_ptr<Options> defaults) {
  defaults->set_catalog(defaults->catalog());
  return defaults;
}

std::unique_ptr<Options> defaults_of_first(
    const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  TORCH_CHECK(!groups.empty(), "jitstep: Optimizer(groups) got no parameter groups. Pass at least ",
              "one, with options that name its optimizer.");
  return make_options(options_with_rule(groups.front()).rule());
}

}  // namespace

std::unique_ptr<Optimizer::Impl> Optimizer::Impl::left_in(Optimizer& moved) const {
  moved.defaults_ = default_options().clone();
  auto left = std::make_unique<Impl>(moved, non_trainable_policy);
  left->several_rules = several_rules;
  left->tunes = tunes;
  return left;
}

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults,
                     NonTrainablePolicy policy)
    : torch::optim::Optimizer(std::vector<ParamGroup>{},
                              with_current_revisions(std::move(defaults))),
      impl_(std::make_unique<Impl>(*this, policy)) {
  static_cast<void>(
      GroupRecord(impl_->default_options(), ValidationPhase::construction));  // validates
  impl_->tunes = impl_->default_options().tunes();
  for (const auto& group : groups) add_param_group(group);
}

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults)
    : Optimizer(groups, std::move(defaults), NonTrainablePolicy::warn) {}

Optimizer::Optimizer(Optimizer&& other)
    : torch::optim::Optimizer(std::move(other)), impl_(std::move(other.impl_)) {
  impl_->optimizer = this;
  other.impl_ = impl_->left_in(other);
}
Optimizer& Optimizer::operator=(Optimizer&& other) {
  if (this == &other) return *this;
  impl_.reset();  // while the parameters that it refers to still exist
  torch::optim::Optimizer::operator=(std::move(other));
  impl_ = std::move(other.impl_);
  impl_->optimizer = this;
  other.impl_ = impl_->left_in(other);
  return *this;
}
Optimizer::~Optimizer() = default;

Optimizer::Optimizer(const std::string& rule, const std::vector<ParamGroup>& groups,
                     const GenericOptions& defaults)
    : Optimizer(groups, checked_options(rule, defaults), NonTrainablePolicy::refuse) {
  impl_->tunes = defaults.tunes();
}

Optimizer::Optimizer(const std::string& rule, std::vector<torch::Tensor> params,
                     const GenericOptions& defaults)
    : Optimizer(rule, std::vector<ParamGroup>{ParamGroup(std::move(params))}, defaults) {}

Optimizer::Optimizer(const std::vector<ParamGroup>& groups)
    : Optimizer({}, defaults_of_first(groups), NonTrainablePolicy::refuse) {
  impl_->several_rules = true;
  for (const auto& group : groups) {
    impl_->tunes |= options_with_rule(group).tunes();
    add_param_group(group);
  }
}

std::unique_ptr<Optimizer> Optimizer::from_spec(std::vector<torch::Tensor> params,
                                                const std::string& json_text) {
  const jit::SpecText spec = as_torch_error([&] { return jit::parse_spec(json_text); });
  GenericOptions options;
  for (const auto& [name, value] : spec.options) options.set(name, value);
  options.edit_formats() = spec.formats;
  return std::make_unique<Optimizer>(spec.rule, std::move(params), options);
}

const Options& Optimizer::Impl::default_options() const {
  return static_cast<const Options&>(optimizer->defaults());
}

const std::string& Optimizer::rule() const { return impl_->default_options().rule(); }

const Options& Optimizer::Impl::group_options(std::size_t group) const {
  const Options& options = checked_options_of(param_groups()[group]);
  TORCH_CHECK(options.rule() == rule_of(group), "jitstep: the options of parameter group ", group,
              " were replaced by those of another optimizer. Use jitstep's options of ",
              rule_of(group), ".");
  return options;
}

const std::string& Optimizer::Impl::rule_of(std::size_t group) const {
  return group < groups.size() ? groups[group].rule : rule();
}

Options& Optimizer::Impl::group_options(std::size_t group) {
  return const_cast<Options&>(std::as_const(*this).group_options(group));
}

ParameterFormats Optimizer::formats_of(const torch::Tensor& parameter) const {
  impl_->sync_groups();
  const auto group = impl_->group_of(key_of(parameter));
  TORCH_CHECK(
      group,
      "jitstep: formats_of: the tensor is not a parameter of this optimizer. Pass one of its ",
      "parameters.");
  const auto plan =
      GroupRecord(impl_->group_options(*group), ValidationPhase::step).plan(parameter);
  const jit::StateFormat& format = plan->spec.state;
  ParameterFormats formats{{}, format.weights};
  const auto& slots = plan->rule().slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (format.slots[i]) formats.slots[slots[i].name] = *format.slots[i];
  return formats;
}

std::vector<torch::Tensor> Optimizer::fp32_weights() const {
  std::vector<torch::Tensor> weights;
  impl_->together(RankCall::fp32_weights, [&] {
    impl_->agree();
    weights = weights_of_all();
  });
  return weights;
}

std::vector<torch::Tensor> Optimizer::weights_of_all() const {
  const OwnOperations own;
  std::vector<torch::Tensor> weights;
  if (impl_->offload) {
    impl_->sync_groups();
    impl_->offload->refresh();
  }
  for (const ParamGroup& group : param_groups_)
    for (const torch::Tensor& p : group.params()) {
      const auto found = state_.find(key_of(p));
      const auto* const state =
          found == state_.end() ? nullptr : dynamic_cast<const ParamState*>(found->second.get());
      if (impl_->sharding) {
        weights.push_back(impl_->gather_weights(key_of(p), p, state));
        continue;
      }
      const torch::Tensor& bound = impl_->offload ? impl_->offload->stepped(key_of(p), p) : p;
      const bool more = state != nullptr && state->has_residual(bound);
      weights.push_back(
          (more ? state->weights() : p.detach()).to(p.device(), torch::kFloat32, false, !more));
    }
  return weights;
}

std::vector<double> Optimizer::Impl::shared_values() const {
  if (auto values = shared_state.values()) return *values;
  const Options& options = param_groups().empty() ? default_options() : group_options(0);
  return GroupRecord(options, ValidationPhase::step).initial_shared_state();
}

double Optimizer::aux_state(const std::string& name) const {
  return impl_->shared_values().at(shared_index(impl_->default_options().manifest(), name));
}

void Optimizer::set_aux_state(const std::string& name, double value) {
  std::vector<double> values = impl_->shared_values();
  values.at(shared_index(impl_->default_options().manifest(), name)) = value;
  TORCH_CHECK(std::isfinite(value), "jitstep: ", rule(), ": the shared state \"", name,
              "\" cannot be ", value, ". Give a finite number.");
  const OwnOperations own;
  impl_->shared_state.set(values);
}

}  // namespace jitstep
