#include "jitstep/optimizer.h"

#include <torch/torch.h>

#include <tuple>
#include <utility>

#include "optim/optimizer/optimizer_records.h"
#include "optim/options/spec_text.h"
#include "optim/state/archive.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {
namespace {

// Several tensor handles may stand for one parameter; torch keeps state by what they share.
void* key_of(const torch::Tensor& p) { return p.unsafeGetTensorImpl(); }

std::unique_ptr<Options> checked_options(const std::string& rule, const GenericOptions& given) {
  return as_argument_error([&] { return make_options(rule, given); });
}

// A group's options as options of this rule, whichever way the user wrote them.
std::unique_ptr<Options> options_like(const Options& defaults,
                                      const torch::optim::OptimizerOptions& given) {
  const auto* const generic = dynamic_cast<const GenericOptions*>(&given);
  if (generic != nullptr && generic->rule().empty())
    return checked_options(defaults.rule(), *generic);
  const auto* const ours = dynamic_cast<const Options*>(&given);
  TORCH_CHECK(ours != nullptr && ours->rule() == defaults.rule(),
              "the options of a parameter group belong to another optimizer than ", defaults.rule(),
              "; use jitstep's options class of this rule, or jitstep::GenericOptions");
  return std::unique_ptr<Options>(static_cast<Options*>(ours->clone().release()));
}

}  // namespace

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults,
                     Frozen frozen)
    : torch::optim::Optimizer(std::vector<ParamGroup>{}, std::move(defaults)),
      records_(std::make_unique<Records>(frozen)) {
  GroupNumbers numbers;
  GroupRecord().refresh(default_options(), numbers);  // validates
  for (const auto& group : groups) add_param_group(group);
}

Optimizer::Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults)
    : Optimizer(groups, std::move(defaults), Frozen::warn) {}

// NOLINTNEXTLINE(performance-noexcept-move-constructor): that of torch's class may throw.
Optimizer::Optimizer(Optimizer&&) = default;
Optimizer::~Optimizer() = default;

Optimizer::Optimizer(const std::string& rule, const std::vector<ParamGroup>& groups,
                     const GenericOptions& defaults)
    : Optimizer(groups, checked_options(rule, defaults), Frozen::refuse) {}

Optimizer::Optimizer(const std::string& rule, std::vector<torch::Tensor> params,
                     const GenericOptions& defaults)
    : Optimizer(rule, std::vector<ParamGroup>{ParamGroup(std::move(params))}, defaults) {}

std::unique_ptr<Optimizer> Optimizer::from_spec(std::vector<torch::Tensor> params,
                                                const std::string& json_text) {
  const SpecText spec = parse_spec(json_text);
  return std::make_unique<Optimizer>(spec.rule, std::move(params), spec.options);
}

const Options& Optimizer::default_options() const {
  return static_cast<const Options&>(defaults());
}

const std::string& Optimizer::rule() const { return default_options().rule(); }

Options& Optimizer::group_options(std::size_t group) {
  auto* const options = dynamic_cast<Options*>(&param_groups_[group].options());
  TORCH_CHECK(options != nullptr && options->rule() == rule(), "the options of parameter group ",
              group, " were replaced by those of another optimizer; use jitstep's options of ",
              rule());
  return *options;
}

// ---- groups ------------------------------------------------------------------------------------

Optimizer::ParamGroup Optimizer::merged(const ParamGroup& group) const {
  auto options = group.has_options() ? options_like(default_options(), group.options())
                                     : options_like(default_options(), default_options());
  if (group.has_options()) options->inherit(default_options());
  return ParamGroup(group.params(), std::move(options));
}

// Every argument of a group, but whether it shares parameters with others.
void Optimizer::check_group(const ParamGroup& group, std::size_t number) const {
  std::set<std::tuple<torch::ScalarType, std::int64_t, std::int64_t>> kinds;
  GroupRecord record;
  GroupNumbers numbers;
  about_group(number,
              [&] { record.refresh(static_cast<const Options&>(group.options()), numbers); });
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    const torch::Tensor& p = group.params()[i];
    check_parameter(p, {number, i});
    if (kinds.emplace(p.scalar_type(), p.dim(), p.numel()).second)
      about(p, {number, i}, [&] { record.spec(p); });
  }
  check_frozen(group.params(), number, records_->frozen);
}

// A parameter in two groups would be stepped twice, and memory of two parameters written by both at
// once. `more` is a group about to be added, or null.
void Optimizer::check_distinct(const ParamGroup* more) const {
  std::unordered_map<void*, std::size_t> seen;
  std::vector<NamedParameter> all;
  const auto check = [&](const ParamGroup& group, std::size_t number) {
    for (std::size_t i = 0; i < group.params().size(); ++i) {
      const auto [found, added] = seen.emplace(key_of(group.params()[i]), number);
      TORCH_CHECK(added || found->second == number,
                  "some parameters appear in more than one parameter group: groups ", found->second,
                  " and ", number, " share one; list each parameter once");
      TORCH_CHECK(
          added, "jitstep: ", describe(group.params()[i], {number, i}),
          " appears twice in its group, as parameters() of modules that share one gives it; "
          "list each parameter once");
      all.push_back({&group.params()[i], {number, i}});
    }
  };
  for (std::size_t g = 0; g < param_groups_.size(); ++g) check(param_groups_[g], g);
  if (more != nullptr) check(*more, param_groups_.size());
  check_disjoint(all);
}

void Optimizer::add_param_group(const ParamGroup& group) {
  if (!is_known()) adopt();
  const ParamGroup whole = merged(group);
  check_group(whole, param_groups_.size());
  check_distinct(&whole);
  torch::optim::Optimizer::add_param_group(whole);
  // Torch replaces options it does not know by the defaults.
  param_groups_.back().set_options(whole.options().clone());
  records_->resize(param_groups_.size());
  register_members(records_->groups.size() - 1);
}

void Optimizer::add_parameters(const std::vector<torch::Tensor>& parameters) {
  if (!is_known()) adopt();
  TORCH_CHECK(!param_groups_.empty(),
              "add_parameters needs a parameter group; use add_param_group");
  const ParamGroup added(parameters, param_groups_[0].options().clone());
  check_group(added, 0);
  check_distinct(&added);
  torch::optim::Optimizer::add_parameters(parameters);
  register_members(0);
}

// Whether a group has the parameters it had when last looked at: torch's users may change them.
bool Optimizer::is_known(std::size_t g) const {
  const auto& params = param_groups_[g].params();
  const auto& members = records_->groups[g].members;
  if (params.size() != members.size()) return false;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (key_of(params[i]) != members[i].key) return false;
  return true;
}

bool Optimizer::is_known() const {
  if (records_->groups.size() != param_groups_.size()) return false;
  for (std::size_t g = 0; g < records_->groups.size(); ++g)
    if (!is_known(g)) return false;
  return true;
}

// Brings the records in line with the groups. Groups that were added through torch's base class get
// their options merged; everything new is checked.
void Optimizer::adopt() {
  for (std::size_t g = records_->groups.size(); g < param_groups_.size(); ++g)
    param_groups_[g] = merged(param_groups_[g]);
  for (std::size_t g = 0; g < param_groups_.size(); ++g)
    if (g >= records_->groups.size() || !is_known(g)) check_group(param_groups_[g], g);
  check_distinct(nullptr);
  const std::size_t known = records_->groups.size();
  records_->resize(param_groups_.size());
  for (std::size_t g = 0; g < records_->groups.size(); ++g)
    if (g >= known || !is_known(g)) register_members(g);
}

void Optimizer::register_members(std::size_t g) {
  records_->memory.clear();
  records_->groups[g].members.clear();
  for (const auto& p : param_groups_[g].params()) {
    const int id = records_->id_of(key_of(p));
    records_->groups[g].members.push_back({.key = key_of(p), .id = id});
  }
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t sum = 0;
  for (const auto& [key, held] : state_)
    if (const auto* const state = dynamic_cast<const ParamState*>(held.get()))
      sum += state->bytes();
  return sum;
}

// ---- archives ----------------------------------------------------------------------------------

void Optimizer::save(torch::serialize::OutputArchive& archive) const {
  write_archive(archive, rule(), state_, param_groups_);
}

void Optimizer::load(torch::serialize::InputArchive& archive) {
  torch::NoGradGuard no_grad;
  if (!is_known()) adopt();
  std::vector<ArchivedGroup> groups = read_archive(archive, rule(), param_groups_);
  // Everything is bound before anything is replaced: a failed load changes nothing.
  for (std::size_t g = 0; g < groups.size(); ++g) {
    GroupRecord record;
    GroupNumbers numbers;
    about_group(g, [&] {
      record.refresh(groups[g].options ? *groups[g].options : group_options(g), numbers);
    });
    for (std::size_t i = 0; i < groups[g].states.size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      const int id = records_->groups[g].members[i].id;
      about(p, {g, i}, [&] {
        const jit::KernelSpec spec = record.spec(p);
        if (auto& state = groups[g].states[i])
          state->bind(p, spec, id, record.initial_memory(spec, id));
      });
    }
  }
  const std::set<int> loaded = distinct_ids(groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].options) {
      group_options(g).assign(groups[g].options->values());
      group_options(g).edit_formats() = groups[g].options->formats();
    }
    for (std::size_t i = 0; i < groups[g].states.size(); ++i) {
      void* const key = records_->groups[g].members[i].key;
      if (groups[g].states[i])
        state_[key] = std::move(groups[g].states[i]);
      else
        state_.erase(key);
    }
  }
  renumber(loaded);
}

// Parameters without a loaded state give up an id that a loaded one has.
void Optimizer::renumber(const std::set<int>& taken) {
  const int known = static_cast<int>(records_->ids.size());
  int next = taken.empty() ? 0 : std::max(*taken.rbegin() + 1, known);
  for (Records::Group& group : records_->groups)
    for (Member& member : group.members)
      if (state_.find(member.key) == state_.end() && taken.contains(member.id))
        records_->ids[member.key] = member.id = next++;
}

}  // namespace jitstep
