// The parameter groups of an optimizer: their options and parameters, checks of both, and the records of parameters.
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "optim/optimizer/host_transforms.h"
#include "optim/optimizer/offload.h"
#include "optim/options/group_options.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {
namespace {

// An optimizer has one mode and one shared state, so a rule with either cannot be mixed with others.
void check_can_share(const jit::Manifest& rule) {
  TORCH_CHECK(!rule.modes && shared_names(rule).empty(), "jitstep: the rule ", rule.name,
              " cannot share an optimizer with other rules: it has ",
              rule.modes ? "modes" : "shared state",
              ". Make a separate optimizer: jitstep::Optimizer(\"", rule.name, "\", groups).");
}

std::vector<GroupTransform> transforms_of(const Options& options) {
  std::vector<GroupTransform> found;
  for (const jit::RuleTransform& one : options.manifest().transforms)
    found.push_back(find_host_transform(options.rule(), one.host));
  return found;
}

// Throws unless each list option is empty or has one value per parameter. Duplicates of a parameter count once.
void check_lists(const Options& options, const std::vector<torch::Tensor>& parameters) {
  std::set<void*> distinct;
  for (const torch::Tensor& p : parameters) distinct.insert(key_of(p));
  as_torch_error([&] { options.values().validate_lists(distinct.size()); });
}

}  // namespace

// Copies a group. Options that it does not set come from the optimizer's defaults, or from its own rule's.
Optimizer::ParamGroup Optimizer::Impl::merged(const ParamGroup& group) const {
  default_options().check_intact();
  if (group.has_options())
    if (const auto* const own = dynamic_cast<const Options*>(&group.options())) own->check_intact();
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
  const Options& options = checked_options_of(group);
  const auto record = with_group_context(first.group, [&] {
    if (several_rules) check_can_share(options.manifest());
    transforms_of(options);  // throws if one is not registered
    if (phase == ValidationPhase::construction) check_lists(options, group.params());
    return GroupRecord(options, phase);
  });
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    const torch::Tensor& p = group.params()[i];
    const ParameterName name{first.group, first.index + i};
    check_parameter(p, name);
    if (kinds.emplace(p.scalar_type(), p.dim(), p.numel()).second)
      with_context(p, name, [&] { record.plan(p); });
  }
  check_frozen(group.params(), first, non_trainable_policy);
  warn_of_repeated(group.params(), first);
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
      TORCH_CHECK(added || found->second.list == &list, "jitstep: some parameters appear ",
                  before.group == name.group ? "twice" : "in more than one parameter group", ": ",
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
  impl_->sync_groups();
  ParamGroup whole = impl_->merged(group);
  const ParameterName first{param_groups_.size(), 0};
  impl_->check_group(whole, first, ValidationPhase::construction);
  impl_->check_distinct(&whole, first);
  auto states = impl_->early_states(whole, first);
  impl_->check_hooks(whole);
  torch::optim::Optimizer::add_param_group(ParamGroup(group.params()));
  param_groups_.back() =
      std::move(whole);  // torch sets options of a class that it does not know to the defaults
  impl_->resize(param_groups_.size());
  impl_->take_in(impl_->groups.size() - 1, std::move(states));
}

void Optimizer::add_parameters(const std::vector<torch::Tensor>& parameters) {
  impl_->check_groups_fixed();
  impl_->sync_groups();
  TORCH_CHECK(
      !param_groups_.empty(),
      "jitstep: add_parameters: the optimizer has no parameter group. Call add_param_group.");
  const ParamGroup added(parameters, impl_->group_options(0).clone());
  const ParameterName first{0, param_groups_[0].params().size()};
  impl_->check_group(added, first, ValidationPhase::step);
  impl_->check_distinct(&added, first);
  auto states = impl_->early_states(added, first);
  impl_->check_hooks(added);
  // torch's function does the same, and warns that it is deprecated.
  auto& params = param_groups_[0].params();
  params.insert(params.end(), parameters.begin(), parameters.end());
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

// True if a group has other parameters, and options of another rule than before, as after groups changed places.
bool Optimizer::Impl::rule_moved(std::size_t g) const {
  const ParamGroup& group = param_groups()[g];
  if (!several_rules || !group.has_options()) return false;
  const auto* const options = dynamic_cast<const Options*>(&group.options());
  return options != nullptr && options->rule() != groups[g].rule && !group_unchanged(g);
}

std::optional<std::size_t> Optimizer::Impl::group_of(const void* key) const {
  const auto contains = [key](const ParamGroup& group) {
    const auto is_it = [key](const torch::Tensor& p) { return key_of(p) == key; };
    return std::any_of(group.params().begin(), group.params().end(), is_it);
  };
  const auto& all = param_groups();
  const auto found = std::find_if(all.begin(), all.end(), contains);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

// A tensor of set_lr() follows the first parameter of its group that is still in a group.
void Optimizer::Impl::move_lrs() {
  if (lrs.empty()) return;
  std::vector<torch::Tensor> moved(param_groups().size());
  for (std::size_t g = 0; g < std::min(lrs.size(), groups.size()); ++g) {
    if (!lrs[g].defined()) continue;
    const auto& records = groups[g].param_records;
    const auto kept = std::find_if(records.begin(), records.end(), [this](const auto& record) {
      return group_of(record.key).has_value();
    });
    if (kept != records.end())
      moved[*group_of(kept->key)] = lrs[g];
    else if (records.empty() && g < moved.size())
      moved[g] = lrs[g];
  }
  lrs = std::move(moved);
}

// Updates the records after the groups changed. Groups that were added through torch's base class get their options
// merged. New groups and parameters are checked.
void Optimizer::Impl::sync_groups() {
  if (groups_unchanged()) return;
  check_groups_fixed();
  const std::size_t known = groups.size();
  for (std::size_t g = known; g < param_groups().size(); ++g)
    param_groups()[g] = merged(param_groups()[g]);
  for (std::size_t g = 0; g < param_groups().size(); ++g)
    if (g >= known || !group_unchanged(g))
      check_group(param_groups()[g], {g, 0},
                  g < known ? ValidationPhase::step : ValidationPhase::construction);
  check_distinct();
  for (std::size_t g = 0; g < param_groups().size(); ++g)
    if (g >= known || !group_unchanged(g)) check_hooks(param_groups()[g]);
  move_lrs();
  resize(param_groups().size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (g >= known || !group_unchanged(g)) register_members(g);
  std::erase_if(given_inputs, [this](const auto& one) { return !group_of(one.first); });
  if (hooks) hook_gradients();
  if (!offload) return;
  offload->drop_removed();
  offload->update_hooks();
}

void Optimizer::Impl::register_members(std::size_t g) {
  memory_checked = false;
  const Options& options = checked_options_of(param_groups()[g]);
  groups[g].rule = options.rule();
  groups[g].transforms = transforms_of(options);
  auto& param_records = groups[g].param_records;
  param_records.clear();
  param_records.reserve(param_groups()[g].params().size());
  std::set<void*> listed;
  for (const auto& p : param_groups()[g].params()) {
    const bool repeated = !listed.insert(key_of(p)).second;
    ParamRecord& record = param_records.emplace_back();
    record.name = {g, param_records.size() - 1};
    record.key = key_of(p);
    record.id = id_of(record.key);
    record.index_in_group = static_cast<int>(listed.size()) - 1;
    record.repeated = repeated;
  }
}

}  // namespace jitstep
