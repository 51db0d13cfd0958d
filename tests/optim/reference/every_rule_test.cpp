// Every shipped rule, with all options away from their defaults, against a second implementation of its formulas.
// Parameters and state are float64, so that only the order of operations differs.
#include <algorithm>
#include <cmath>
#include <set>

#include "optim/reference/cases.h"
#include "optim/reference/trajectory.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

using jit::Option;
using nlohmann::json;
using reference::Numbers;
using reference::Trajectory;

json to_json(const jit::Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_number()) return value.number();
  if (value.is_choice()) return value.choice();
  if (value.is_null()) return nullptr;
  json numbers = json::array();
  for (const double x : value.numbers()) numbers.push_back(std::isnan(x) ? json() : json(x));
  return numbers;
}

Numbers numbers_of(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kFloat64).contiguous().view(-1);
  return Numbers(flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
}

double largest(const Numbers& x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::abs(value));
  return most;
}

// A rule with complete sets of options.
class Subject {
 public:
  explicit Subject(const std::string& rule) : rule_(rule), declared_(rule) {
    for (const auto& name : declared_.names()) defaults_[name] = default_of(name);
    const auto moved = reference::moved_options().find(rule);
    if (moved == reference::moved_options().end()) return;
    for (const json& given : moved->second) {
      json options = defaults_;
      if (sets_.empty()) options.update(common());
      options.update(given);
      sets_.push_back(options);
    }
  }

  bool has_reference() const { return reference::rules().contains(rule_) && !sets_.empty(); }
  const std::vector<json>& sets() const { return sets_; }
  std::vector<std::string> names() const { return declared_.names(); }
  const Option& declaration(const std::string& name) const { return declared_.declaration(name); }
  json default_of(const std::string& name) const { return to_json(declaration(name).initial); }
  const jit::Manifest& manifest() const { return declared_.rule(); }

  Trajectory trajectory(const json& options) const {
    std::vector<std::string> inputs;
    for (const jit::RuleInput& input : manifest().inputs) inputs.push_back(input.name);
    return {rule_, options, !takes_vectors(), inputs};
  }
  std::unique_ptr<Optimizer> optimizer(const Tensors& params, const json& options) const {
    return Optimizer::from_spec(params, json{{"rule", rule_}, {"options", options}}.dump());
  }

 private:
  // The common options that the rule does not replace by its own.
  json common() const {
    json moved = reference::moved_common_options();
    for (const Option& own : declared_.rule().hyper) moved.erase(own.name);
    return moved;
  }
  bool takes_vectors() const {
    try {
      declared_.validate_dims(1);
      return true;
    } catch (const jit::Error&) {
      return false;
    }
  }

  std::string rule_;
  jit::OptionValues declared_;
  json defaults_;
  std::vector<json> sets_;
};

// ---- the optimizer and its reference ----

class Comparison {
 public:
  Comparison(const Subject& subject, const json& options)
      : subject_(subject), expected_(subject.trajectory(options)) {
    for (const reference::Tensor& x : expected_.tensors())
      params_.push_back(torch::tensor(x.p, torch::kFloat64).view(x.shape).set_requires_grad(true));
    optimizer_ = subject.optimizer(params_, options);
    // A CPU's bfloat16 instructions sum products in another order. Some elements then round to the adjacent bfloat16,
    // which is 2^-8 away.
    if (options.value("ns_dtype", "") == "bf16") tolerance_ = 1e-2;
  }

  void follow() {
    for (int step = 1; step <= Trajectory::kSteps; ++step) {
      const auto gradients = expected_.gradients(step);
      for (std::size_t i = 0; i < params_.size(); ++i)
        params_[i].mutable_grad() =
            expected_.has_gradient(i, step)
                ? torch::tensor(gradients[i], torch::kFloat64).view(params_[i].sizes())
                : torch::Tensor();
      for (std::size_t i = 0; i < params_.size(); ++i) give_inputs(i, step);
      if (step == Trajectory::kChange)
        optimizer_->param_groups()[0].options().set_lr(expected_.lr_at(step));
      optimizer_->step();
      expected_.step(step);
      check("after step " + std::to_string(step));
    }
    check_evaluation();
  }

  /// The slots whose values were compared.
  const std::set<std::string>& compared() const { return compared_; }

 private:
  void give_inputs(std::size_t i, int step) {
    if (!expected_.has_gradient(i, step) || !expected_.has_inputs(i, step)) return;
    for (const jit::RuleInput& one : subject_.manifest().inputs)
      optimizer_->set_input(params_[i], one.name,
                            torch::tensor(expected_.input(i, one.name, step), torch::kFloat64)
                                .view(params_[i].sizes()));
  }
  void check(const std::string& when) {
    for (const reference::Tensor& x : expected_.tensors()) {
      const std::string label = when + ", parameter " + std::to_string(x.number);
      equal(label, numbers_of(params_[x.number]), x.p);
      if (x.t > 0) check_state(label + ", ", x);
    }
    for (const auto& [name, value] : expected_.shared())
      equal(when + ", " + name, {optimizer_->aux_state(name)}, {value});
  }

  void check_state(const std::string& label, const reference::Tensor& x) {
    const auto& state = static_cast<const ParamState&>(
        *optimizer_->state().at(params_[x.number].unsafeGetTensorImpl()));
    for (const jit::Slot& slot : subject_.manifest().slots)
      if (const auto stored = x.state.find(slot.name); stored != x.state.end())
        if (const torch::Tensor value = state.value(slot.name); value.defined()) {
          equal(label + slot.name, numbers_of(value), stored->second);
          compared_.insert(slot.name);
        }
    for (const jit::AuxField& field : subject_.manifest().aux_state)
      if (const auto stored = x.state.find(field.name); stored != x.state.end())
        equal(label + field.name, numbers_of(state.aux_state(field.name)), stored->second);
  }

  void check_evaluation() {
    if (!subject_.manifest().modes) return;
    optimizer_->eval();
    for (const reference::Tensor& x : expected_.tensors())
      equal("evaluated", numbers_of(params_[x.number]), expected_.evaluated(x.number));
  }

  void equal(const std::string& what, const Numbers& ours, const Numbers& theirs) {
    ASSERT_EQ(ours.size(), theirs.size()) << what;
    const double allowed = tolerance_ * largest(theirs);
    ASSERT_TRUE(std::isfinite(allowed)) << what;
    double worst = 0;
    for (std::size_t k = 0; k < ours.size(); ++k) {
      const double error = std::abs(ours[k] - theirs[k]);
      if (!(error <= worst)) worst = error;
    }
    EXPECT_LE(worst, allowed) << what << ": " << worst / largest(theirs) << " of the largest";
  }

  const Subject& subject_;
  Trajectory expected_;
  Tensors params_;
  std::unique_ptr<Optimizer> optimizer_;
  double tolerance_ = 1e-12;
  std::set<std::string> compared_;
};

class EveryRule : public testing::TestWithParam<std::string> {
 protected:
  Subject subject_{GetParam()};
};

// Slots that the reference stores in another order or at other steps than the rule. Only parameters show them.
bool is_stored_otherwise(const std::string& rule, const std::string& slot) {
  static const std::set<std::pair<std::string, std::string>> slots = {
      {"lookahead_adamw", "slow"}, {"ranger21", "slow"}, {"soap", "v"}};
  return slots.contains({rule, slot});
}

TEST_P(EveryRule, FollowsItsFormulaWithAllNumbersChanged) {
  ASSERT_TRUE(subject_.has_reference())
      << "write the formulas of " << GetParam() << " into tests/optim/reference/";
  std::set<std::string> compared;
  for (const json& options : subject_.sets()) {
    SCOPED_TRACE(options.dump());
    Comparison comparison(subject_, options);
    comparison.follow();
    if (HasFailure()) return;
    compared.insert(comparison.compared().begin(), comparison.compared().end());
  }
  for (const jit::Slot& slot : subject_.manifest().slots)
    EXPECT_EQ(compared.contains(slot.name), !is_stored_otherwise(GetParam(), slot.name))
        << "the slot " << slot.name << " in tests/optim/reference/";
}

// ---- the comparison can fail ----

// The values of an option with one of its numbers, or all of it, reset to the default.
std::vector<json> moved_back(const json& value, const json& initial) {
  if (value == initial) return {};
  if (!value.is_array() || value.size() != initial.size()) return {initial};
  std::vector<json> all;
  for (std::size_t i = 0; i < value.size(); ++i) {
    json back = value;
    back[i] = initial[i];
    all.push_back(back);
  }
  return all;
}

// All numbers that the comparison checks.
Numbers outcome(Trajectory trajectory) {
  Numbers all;
  const auto add = [&](const Numbers& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (int step = 1; step <= Trajectory::kSteps; ++step) {
    trajectory.step(step);
    for (const reference::Tensor& x : trajectory.tensors()) {
      add(x.p);
      for (const auto& [name, values] : x.state) add(values);
    }
  }
  return all;
}

class Noticing {
 public:
  explicit Noticing(const Subject& subject) : subject_(subject) {}

  /// Whether some set of options gives a clearly different result with the default of one option.
  bool notices(const std::string& name, std::size_t part) const {
    for (const json& options : subject_.sets()) {
      const auto back = moved_back(options.at(name), subject_.default_of(name));
      if (part >= back.size() || options.at(name) == back[part]) continue;
      json other = options;
      other[name] = back[part];
      if (differ(outcome(subject_.trajectory(options)), outcome(subject_.trajectory(other))))
        return true;
    }
    return false;
  }

 private:
  static bool differ(const Numbers& a, const Numbers& b) {
    if (a.size() != b.size()) return true;
    for (std::size_t k = 0; k < a.size(); ++k)
      if (!(std::abs(a[k] - b[k]) <= 1e-6 * std::abs(a[k]))) return true;
    return false;
  }

  const Subject& subject_;
};

TEST_P(EveryRule, HasEveryNumberChangedInTheFirstSetOfOptions) {
  ASSERT_TRUE(subject_.has_reference());
  const json& options = subject_.sets().front();
  for (const auto& name : subject_.names()) {
    if (subject_.declaration(name).is_flag()) continue;
    const json &value = options.at(name), initial = subject_.default_of(name);
    EXPECT_NE(value, initial) << name;
    for (std::size_t i = 0; value.is_array() && i < initial.size(); ++i)
      EXPECT_NE(value[i], initial[i]) << name << "[" << i << "]";
  }
}

TEST_P(EveryRule, HasEveryFlagSwitchedAndEveryChoiceInSomeSetOfOptions) {
  for (const auto& name : subject_.names()) {
    const Option& option = subject_.declaration(name);
    std::set<json> missing(option.choices.begin(), option.choices.end());
    if (option.type == Option::Type::boolean) missing.insert(!option.initial.boolean());
    for (const json& options : subject_.sets()) missing.erase(options.at(name));
    EXPECT_TRUE(missing.empty()) << name << ": " << json(missing);
  }
}

// Fromage divides a gradient by its own norm, so a factor of all gradients has no effect.
bool has_an_effect(const std::string& rule, const std::string& option) {
  return rule != "fromage" || (option != "grad_scale" && option != "max_grad_norm");
}

TEST_P(EveryRule, WouldFailIfItIgnoredAnOption) {
  const Noticing noticing(subject_);
  for (const auto& name : subject_.names()) {
    const json initial = subject_.default_of(name);
    for (std::size_t part = 0; part < std::max<std::size_t>(initial.size(), 1); ++part)
      EXPECT_EQ(noticing.notices(name, part), has_an_effect(GetParam(), name))
          << name << "[" << part << "]";
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, testing::ValuesIn(shipped(jit::Manifest::Kind::rule)),
                         [](const auto& rule) { return rule.param; });

}  // namespace
}  // namespace jitstep::tests
