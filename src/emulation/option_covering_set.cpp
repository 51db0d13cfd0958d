#include "emulation/option_covering_set.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "emulation/option_search.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::emulation {
namespace {

using namespace jitstep::jit;

bool is_accepted(const Option& option, const Value& value) {
  return !option.type_problem(value) && !option.range_problem(value);
}

// Valid values of an option: its limits first, then some typical values.
std::vector<double> numbers(const Option& option) {
  std::vector<double> tried;
  for (const auto& limit : {option.constraint.low, option.constraint.high})
    if (limit) tried.push_back(*limit);
  tried.insert(tried.end(), {0.0, 0.5, 1.0, 2.0});
  std::erase_if(tried, [&](double x) { return !option.constraint.accepts(x); });
  return tried;
}

// The option's numbers with one of them replaced.
std::vector<Value> with_one_replaced(const Option& option) {
  std::vector<Value> all;
  for (std::size_t i = 0; i < option.initial.numbers().size(); ++i) {
    std::vector<double> tried = numbers(option);
    tried.push_back(std::numeric_limits<double>::quiet_NaN());  // null; filtered out if invalid
    for (const double x : tried) {
      Value::Numbers changed = option.initial.numbers();
      changed[i] = x;
      all.emplace_back(changed);
    }
  }
  return all;
}

// Valid values other than the default.
std::vector<Value> alternatives(const Option& option) {
  std::vector<Value> all;
  if (option.initial.is_numbers()) all = with_one_replaced(option);
  if (option.type == Option::Type::boolean) all = {true, false};
  for (const std::string& choice : option.choices) all.emplace_back(choice);
  if (option.type == Option::Type::number || option.type == Option::Type::nullable)
    for (const double x : numbers(option)) all.emplace_back(x);
  if (option.type == Option::Type::nullable) all.emplace_back(nullptr);
  std::erase_if(all, [&](const Value& value) {
    return value == option.initial || !is_accepted(option, value);
  });
  return all;
}

// Flags with their values, as text.
using Seen = std::set<std::string>;

std::string word_of(const std::string& flag, const Value& value) {
  return to_string(NamedValues{{flag, value}});
}

Seen words_of(const NamedValues& flags) {
  Seen words;
  for (const auto& [name, value] : flags) words.insert(word_of(name, value));
  return words;
}

std::vector<Value> values_of(const Option& flag) {
  if (flag.type == Option::Type::boolean) return {false, true};
  return {flag.choices.begin(), flag.choices.end()};
}

// The conditions that exclude slots, reductions or auxiliary state, by their text.
std::map<std::string, const Expression*> conditions_of(const Manifest& file) {
  std::map<std::string, const Expression*> all;
  const auto take = [&](const auto& parts) {
    for (const auto& part : parts)
      if (part.condition) all[part.condition->written()] = &*part.condition;
  };
  take(file.slots), take(file.reductions), take(file.aux_state), take(file.matrices);
  return all;
}

// Builds a covering set greedily: each entry adds one change to an earlier entry.
class RuleCoveringSet {
 public:
  RuleCoveringSet(const Manifest& rule, const Catalog& catalog) : rule_(rule), catalog_(catalog) {}

  std::vector<RuleOptions> run() {
    take({});
    for (const int dims : {1, 3}) take({.dims = dims});
    for (const auto* options : {&rule_.hyper, &rule_.flags})
      for (const Option& option : *options)
        if (!option.lifted)
          for (const Value& value : alternatives(option)) change(option.name, value);
    reach_flags();
    reach_conditions();
    take_gradient();
    return std::move(found_);
  }

  // After run().
  const std::vector<std::string>& unreached() const { return unreached_; }

 private:
  // The values of all options. Empty if they are invalid.
  std::optional<OptionValues> valid(const RuleOptions& options) const {
    try {
      OptionValues all(rule_, catalog_.gradient());
      for (const auto& [name, value] : options.values) all.set(name, value);
      all.validate();
      emulation::validate(all, options);
      return all;
    } catch (const Error&) {
      return {};
    }
  }

  // Adds options that give a flag a new value. Always adds the defaults.
  bool take(const RuleOptions& options) {
    const auto all = valid(options);
    if (!all && !found_.empty()) return false;
    const std::size_t before = seen_.size();
    if (all) seen_.merge(words_of(flags_of(*all, options)));
    const bool fresh = seen_.size() > before || found_.empty();
    if (fresh) found_.push_back(options);
    return fresh;
  }

  void change(const std::string& name, const Value& value) {
    const std::size_t known = found_.size();
    for (std::size_t i = 0; i < known; ++i) {
      RuleOptions changed = found_[i];
      changed.values[name] = value;
      if (take(changed)) return;
    }
  }

  // Searches for flag values that single changes did not reach.
  void reach_flags() {
    for (const Option& flag : rule_.flags)
      for (const Value& value : values_of(flag)) {
        const std::string word = word_of(flag.name, value);
        if (seen_.contains(word)) continue;
        const Search result = search(rule_, {flag.name}, [&](const RuleOptions& options) {
          const auto all = valid(options);
          return all && words_of(flags_of(*all, options)).contains(word);
        });
        if (result.found) take(*result.found);
        if (!result.found && !result.complete) unreached_.push_back(word);
      }
  }

  void reach_conditions() {
    for (const auto& [written, condition] : conditions_of(rule_))
      for (const bool wanted : {true, false}) reach(*condition, wanted);
  }

  void reach(const Expression& condition, bool wanted) {
    const auto holds = [&](const RuleOptions& options) {
      const auto all = valid(options);
      return all && condition.holds(flags_of(*all, options)) == wanted;
    };
    if (std::any_of(found_.begin(), found_.end(), holds)) return;
    std::vector<std::string> names;
    for (const Option& flag : rule_.flags)
      if (condition.reads(flag.name)) names.push_back(flag.name);
    if (const Search result = search(rule_, names, holds); result.found)
      found_.push_back(*result.found);
  }

  // One entry that activates all gradient options.
  void take_gradient() {
    RuleOptions options;
    for (const Option& option : catalog_.gradient().hyper)
      if (rule_.find(option.name) == nullptr && !alternatives(option).empty())
        options.values[option.name] = alternatives(option).front();
    if (!options.values.empty() && valid(options)) found_.push_back(options);
  }

  const Manifest& rule_;
  const Catalog& catalog_;
  std::vector<RuleOptions> found_;
  Seen seen_;
  std::vector<std::string> unreached_;
};

}  // namespace

NamedValues flags_of(const OptionValues& values, const RuleOptions& options) {
  return options.sizes.empty() ? values.flags(options.dims) : values.flags_for(options.sizes);
}

void validate(const OptionValues& values, const RuleOptions& options) {
  if (options.sizes.empty())
    values.validate_dims(options.dims);
  else
    values.validate_for(options.sizes);
}

std::vector<RuleOptions> covering_set(const Manifest& rule, const Catalog& catalog) {
  return RuleCoveringSet(rule, catalog).run();
}

// Adds values between which a condition of the codec changes.
static void add_critical(const Manifest& codec, const Option& option, std::vector<Value>& values) {
  std::vector<std::string> conditions;
  for (const auto& [written, condition] : conditions_of(codec))
    if (!option.is_flag() && condition->reads(option.name)) conditions.push_back(written);
  if (conditions.empty()) return;
  for (const double x : critical_numbers(option, conditions))
    if (Value value = x; !(value == option.initial) &&
                         std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(std::move(value));
}

std::vector<std::string> unreached_flags(const Manifest& rule, const Catalog& catalog) {
  RuleCoveringSet set(rule, catalog);
  set.run();
  return set.unreached();
}

// Adds options unless an earlier entry has the same text.
static void add_once(NamedValues options, std::vector<NamedValues>& all) {
  const auto same = [&](const NamedValues& known) {
    return to_string(known) == to_string(options);
  };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(options));
}

std::vector<NamedValues> covering_set(const Manifest& codec) {
  constexpr std::size_t kMost = 2;  // values per number: the limits
  std::vector<NamedValues> all = {{}};
  for (const auto* options : {&codec.hyper, &codec.flags})
    for (const Option& option : *options) {
      std::vector<Value> values = alternatives(option);
      if (!option.is_flag() && values.size() > kMost) values.resize(kMost);
      add_critical(codec, option, values);
      for (Value& value : values) add_once({{option.name, std::move(value)}}, all);
    }
  return all;
}

}  // namespace jitstep::emulation
