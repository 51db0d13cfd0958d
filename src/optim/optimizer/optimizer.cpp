#include "jitstep/optimizer.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "jit/codegen/spec_text.h"
#include "jitstep/jit/catalog.h"
#include "optim/optimizer/host_transforms.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/options/group_options.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// Several tensor handles may refer to one parameter. torch indexes state by their common TensorImpl.
void* key_of(const torch::Tensor& p) { return p.unsafeGetTensorImpl(); }

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

// An optimizer has one mode and one shared state, so a rule with either cannot be mixed with others.
void check_can_share(const jit::Manifest& rule) {
  TORCH_CHECK(!rule.modes && shared_names(rule).empty(), "jitstep: the rule ", rule.name,
              " cannot share an optimizer with other rules: it has ",
              rule.modes ? "modes" : "shared state",
              ". Make a separate optimizer: jitstep::Optimizer(\"", rule.name, "\", groups).");
}

GroupTransform transform_of(const Options& options) {
  const std::string& name = options.manifest().host_transform;
  return name.empty() ? GroupTransform() : find_host_transform(options.rule(), name);
}

}  // namespace

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults,
                     NonTrainablePolicy frozen)
    : torch::optim::Optimizer(std::vector<ParamGroup>{},
                              with_current_revisions(std::move(defaults))),
      impl_(std::make_unique<Impl>(*this, frozen)) {
  static_cast<void>(
      GroupRecord(impl_->default_options(), ValidationPhase::construction));  // validates
  impl_->tunes = impl_->default_options().tunes();
  for (const auto& group : groups) add_param_group(group);
}

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults)
    : Optimizer(groups, std::move(defaults), NonTrainablePolicy::warn) {}

// NOLINTNEXTLINE(performance-noexcept-move-constructor): the base class's move constructor may throw.
Optimizer::Optimizer(Optimizer&& other)
    : torch::optim::Optimizer(std::move(other)), impl_(std::move(other.impl_)) {
  impl_->optimizer = this;
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
  for (const auto& group : groups) add_param_group(group);
}

std::unique_ptr<Optimizer> Optimizer::from_spec(std::vector<torch::Tensor> params,
                                                const std::string& json_text) {
  const jit::SpecText spec = rethrow_as_torch_error([&] { return jit::parse_spec(json_text); });
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
  const auto* const options = dynamic_cast<const Options*>(&param_groups()[group].options());
  TORCH_CHECK(options != nullptr && options->rule() == rule_of(group),
              "jitstep: the options of parameter group ", group,
              " were replaced by those of another optimizer. Use jitstep's options of ",
              rule_of(group), ".");
  return *options;
}

const std::string& Optimizer::Impl::rule_of(std::size_t group) const {
  return group < groups.size() ? groups[group].rule : rule();
}

Options& Optimizer::Impl::group_options(std::size_t group) {
  return const_cast<Options&>(std::as_const(*this).group_options(group));
}

// ---- groups ------------------------------------------------------------------------------------

// Copies a group. Options that it does not set come from the optimizer's defaults, or from its own rule's.
Optimizer::ParamGroup Optimizer::Impl::merged(const ParamGroup& group) const {
  default_options().check_unharmed();
  if (group.has_options())
    if (const auto* const own = dynamic_cast<const Options*>(&group.options()))
      own->check_unharmed();
  std::unique_ptr<Options> of_rule;
  if (several_rules) {
    of_rule = make_options(options_with_rule(group).rule(), default_options().catalog());
    of_rule->set_catalog(default_options().catalog());
  }
  const Options& defaults = of_rule ? *of_rule : default_options();
  auto options = options_like(defaults, group.has_options() ? group.options() : defaults);
  if (group.has_options()) options->inherit(defaults);
  options->set_catalog(default_options().catalog());
  options->construct();
  return ParamGroup(group.params(), std::move(options));
}

// Checks all arguments of a group, except that its parameters are in no other group. `first` is the name of its first
// parameter.
void Optimizer::Impl::check_group(const ParamGroup& group, const ParameterName& first,
                                  ValidationPhase phase) const {
  std::set<std::tuple<torch::ScalarType, std::int64_t, std::int64_t>> kinds;
  const auto& options = static_cast<const Options&>(group.options());
  const auto record = with_group_context(first.group, [&] {
    if (several_rules) check_can_share(options.manifest());
    transform_of(options);  // throws if the transform is not registered
    return GroupRecord(options, phase);
  });
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    const torch::Tensor& p = group.params()[i];
    const ParameterName name{first.group, first.index + i};
    check_parameter(p, name);
    if (kinds.emplace(p.scalar_type(), p.dim(), p.numel()).second)
      with_context(p, name, [&] { record.plan(p); });
  }
  check_frozen(group.params(), first, frozen);
}

// A parameter in two groups would be stepped twice. Two parameters that share memory would both write to it at once.
// Within a group a parameter may be listed twice, because parameters() of modules that share one lists it twice.
// `more`: parameters about to be added, or null. `first`: the name of the first of them.
void Optimizer::Impl::check_distinct(const ParamGroup* more, const ParameterName& first) const {
  struct Seen {
    const ParamGroup* list;
    ParameterName name;
  };
  std::unordered_map<void*, Seen> seen;
  std::vector<NamedParameter> all;
  const auto check = [&](const ParamGroup& list, const ParameterName& begin) {
    for (std::size_t i = 0; i < list.params().size(); ++i) {
      const torch::Tensor& p = list.params()[i];
      const ParameterName name{begin.group, begin.index + i};
      const auto [found, added] = seen.emplace(key_of(p), Seen{&list, name});
      const ParameterName& before = found->second.name;
      TORCH_CHECK(added || found->second.list == &list,
                  "jitstep: some parameters appear in more than one parameter group: ",
                  describe(p, name), " is also parameter ", before.index, " of group ",
                  before.group, ". List each parameter once.");
      if (added) all.push_back({&p, name});
    }
  };
  for (std::size_t g = 0; g < param_groups().size(); ++g) check(param_groups()[g], {g, 0});
  if (more != nullptr) check(*more, first);
  check_disjoint(all);
}

void Optimizer::Impl::check_distinct() const { check_distinct(nullptr, {}); }

void Optimizer::add_param_group(const ParamGroup& group) {
  impl_->check_groups_fixed();
  if (!impl_->groups_unchanged()) impl_->sync_groups();
  ParamGroup whole = impl_->merged(group);
  const ParameterName first{param_groups_.size(), 0};
  impl_->check_group(whole, first, ValidationPhase::construction);
  impl_->check_distinct(&whole, first);
  auto states = impl_->early_states(whole, first);
  torch::optim::Optimizer::add_param_group(ParamGroup(group.params()));
  param_groups_.back() =
      std::move(whole);  // torch sets options of a class that it does not know to the defaults
  impl_->resize(param_groups_.size());
  impl_->take_in(impl_->groups.size() - 1, std::move(states));
}

void Optimizer::add_parameters(const std::vector<torch::Tensor>& parameters) {
  impl_->check_groups_fixed();
  if (!impl_->groups_unchanged()) impl_->sync_groups();
  TORCH_CHECK(
      !param_groups_.empty(),
      "jitstep: add_parameters: the optimizer has no parameter group. Call add_param_group.");
  const ParamGroup added(parameters, param_groups_[0].options().clone());
  const ParameterName first{0, param_groups_[0].params().size()};
  impl_->check_group(added, first, ValidationPhase::step);
  impl_->check_distinct(&added, first);
  auto states = impl_->early_states(added, first);
  torch::optim::Optimizer::add_parameters(parameters);
  impl_->take_in(0, std::move(states));
}

// True if a group's parameters are those of its records. Users may change param_groups() directly.
bool Optimizer::Impl::group_unchanged(std::size_t g) const {
  const auto& params = param_groups()[g].params();
  const auto& param_records = groups[g].param_records;
  if (params.size() != param_records.size()) return false;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (key_of(params[i]) != param_records[i].key) return false;
  return true;
}

bool Optimizer::Impl::groups_unchanged() const {
  if (groups.size() != param_groups().size()) return false;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (!group_unchanged(g)) return false;
  return true;
}

// Updates the records after the groups changed. Groups that were added through torch's base class get their options
// merged. New groups and parameters are checked.
void Optimizer::Impl::sync_groups() {
  check_groups_fixed();
  const std::size_t known = groups.size();
  for (std::size_t g = known; g < param_groups().size(); ++g)
    param_groups()[g] = merged(param_groups()[g]);
  for (std::size_t g = 0; g < param_groups().size(); ++g)
    if (g >= known || !group_unchanged(g))
      check_group(param_groups()[g], {g, 0},
                  g < known ? ValidationPhase::step : ValidationPhase::construction);
  check_distinct();
  resize(param_groups().size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (g >= known || !group_unchanged(g)) register_members(g);
  if (hooks) hook_gradients();
}

void Optimizer::Impl::register_members(std::size_t g) {
  memory_checked = false;
  const auto& options = static_cast<const Options&>(param_groups()[g].options());
  groups[g].rule = options.rule();
  groups[g].transform = transform_of(options);
  auto& param_records = groups[g].param_records;
  param_records.clear();
  std::set<void*> listed;
  for (const auto& p : param_groups()[g].params()) {
    const bool repeated = !listed.insert(key_of(p)).second;
    ParamRecord& record = param_records.emplace_back();
    record.name = {g, param_records.size() - 1};
    record.key = key_of(p);
    record.id = id_of(record.key);
    record.number = static_cast<int>(listed.size()) - 1;
    record.repeated = repeated;
  }
  warn_of_repeated(g);
}

// Warns about duplicates in a group: names the first one, and the number of others.
void Optimizer::Impl::warn_of_repeated(std::size_t g) const {
  const auto& param_records = groups[g].param_records;
  const auto again =
      std::find_if(param_records.begin(), param_records.end(), std::mem_fn(&ParamRecord::repeated));
  if (again == param_records.end()) return;
  const auto same = [&](const ParamRecord& param_record) { return param_record.key == again->key; };
  const auto first = std::find_if(param_records.begin(), param_records.end(), same);
  const auto times = std::count_if(first, param_records.end(), same);
  std::set<void*> others;
  for (const ParamRecord& param_record : param_records)
    if (param_record.repeated && !same(param_record)) others.insert(param_record.key);
  const auto index = static_cast<std::size_t>(first - param_records.begin());
  const std::string more = others.empty() ? "" : c10::str(" (", others.size(), " more like it)");
  TORCH_WARN("jitstep: ", describe(param_groups()[g].params()[index], {g, index}), " is listed ",
             times, " times in its group, again as parameter ", again - param_records.begin(), more,
             ". parameters() of modules that share a parameter lists it so. It is stepped once.");
}

ParameterFormats Optimizer::formats_of(const torch::Tensor& parameter) const {
  const auto contains = [&](const ParamGroup& group) {
    const auto& params = group.params();
    return std::any_of(params.begin(), params.end(),
                       [&](const auto& p) { return key_of(p) == key_of(parameter); });
  };
  const auto group = std::find_if(param_groups_.begin(), param_groups_.end(), contains);
  TORCH_CHECK(
      group != param_groups_.end(),
      "jitstep: formats_of: the tensor is not a parameter of this optimizer. Pass one of its ",
      "parameters.");
  const auto g = static_cast<std::size_t>(group - param_groups_.begin());
  const auto plan = GroupRecord(impl_->group_options(g), ValidationPhase::step).plan(parameter);
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
  for (const ParamGroup& group : param_groups_)
    for (const torch::Tensor& p : group.params()) {
      const auto found = state_.find(key_of(p));
      const auto* const state =
          found == state_.end() ? nullptr : dynamic_cast<const ParamState*>(found->second.get());
      if (impl_->sharding) {
        weights.push_back(impl_->shared_weights(key_of(p), p, state));
        continue;
      }
      const bool more = state != nullptr && state->has_residual(p);
      weights.push_back((more ? state->weights() : p.detach()).to(torch::kFloat32, false, !more));
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
  impl_->shared_state.set(values);
}

}  // namespace jitstep
