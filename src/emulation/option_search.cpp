#include "emulation/option_search.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "jit/base/characters.h"
#include "jitstep/hyper_params.h"

namespace jitstep::emulation {
namespace {

using namespace jitstep::jit;

constexpr int kMostTries = 100000;
constexpr std::size_t kMostChanges = 4;
const std::string kSizes = "(sizes)";  // a variable of the search

// The numeric constants of a condition, without indices and digits in names.
std::vector<double> numbers_in(const std::string& condition) {
  std::vector<double> numbers;
  const char* const end = condition.data() + condition.size();
  for (const char* at = condition.data(); at < end;) {
    const char before = at == condition.data() ? ' ' : at[-1];
    double x = 0;
    const bool begins =
        !in_word(before) && before != '[' && (is_digit(*at) || *at == '-' || *at == '.');
    const auto [next, problem] = std::from_chars(at, end, x);
    const bool number = begins && problem == std::errc();
    if (number) numbers.push_back(x);
    at = number ? next : at + 1;
  }
  return numbers;
}

// A variable of the search: the number of dimensions, the sizes, an option, or one of an option's numbers.
struct Variable {
  std::string name;
  std::vector<Value> values;  // other than the default
  std::optional<std::size_t> index = {};
  bool finite = true;  // whether `values` has all possible values
};

void change(RuleOptions& options, const Manifest& rule, const Variable& variable,
            const Value& value) {
  if (variable.name == "dims") {
    options.dims = static_cast<int>(value.number());
  } else if (variable.name == kSizes) {
    options.sizes.assign(value.numbers().begin(), value.numbers().end());
    options.dims = static_cast<int>(options.sizes.size());
  } else if (!variable.index) {
    options.values[variable.name] = value;
  } else {
    const auto set = options.values.find(variable.name);
    Value::Numbers numbers = set != options.values.end()
                                 ? set->second.numbers()
                                 : rule.find(variable.name)->initial.numbers();
    numbers[*variable.index] = value.number();
    options.values[variable.name] = std::move(numbers);
  }
}

// The options on which names depend, through the conditions of lifted flags and of refusals.
class Dependencies {
 public:
  explicit Dependencies(const Manifest& rule) : rule_(rule) {
    for (const auto* options : {&rule.hyper, &rule.flags})
      for (const Option& option : *options) all_.push_back(option.name);
    all_.emplace_back("dims");
  }

  void add(const std::string& name) {
    if (!names_.insert(name).second) return;
    if (const Option* option = rule_.find(name); option != nullptr && option->lifted)
      add(*option->lifted);
    for (const Refusal& refusal : rule_.refusals)
      if (refusal.condition.reads(name)) add(refusal.condition);
  }

  const std::set<std::string>& names() const { return names_; }
  const std::vector<std::string>& conditions() const { return conditions_; }

 private:
  void add(const Expression& condition) {
    conditions_.push_back(condition.written());
    if (condition.reads_sizes()) names_.insert(kSizes);
    for (const std::string& name : all_)
      if (condition.reads(name)) add(name);
  }

  const Manifest& rule_;
  std::vector<std::string> all_, conditions_;
  std::set<std::string> names_;
};

Variable dimensions() {
  Variable dims{.name = "dims", .values = {}};
  for (int n = 1; n <= kMaxDims; ++n)
    if (n != RuleOptions().dims) dims.values.emplace_back(n);
  return dims;
}

// Parameters of one to three dimensions with sizes around the integers in conditions.
Variable sizes(const std::vector<std::string>& conditions) {
  constexpr std::size_t kMostSides = 10;
  std::set<double> sides = {1, 2};
  for (const std::string& condition : conditions)
    for (const double x : numbers_in(condition))
      if (x >= 2 && x < 0x1p40 && x == std::floor(x)) sides.insert({x - 1, x, x + 1});
  while (sides.size() > kMostSides) sides.erase(std::prev(sides.end()));
  Variable all{.name = kSizes, .values = {}, .finite = false};
  std::vector<Value::Numbers> shapes = {{}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (!shapes[i].empty()) all.values.emplace_back(shapes[i]);
    for (const double side : sides) {
      if (shapes[i].size() == 3) break;
      Value::Numbers longer = shapes[i];
      longer.push_back(side);
      shapes.push_back(std::move(longer));
    }
  }
  return all;
}

Variable of_flag(const Option& flag) {
  Variable variable{.name = flag.name, .values = {}};
  if (flag.type == Option::Type::boolean) variable.values = {!flag.initial.boolean()};
  for (const std::string& choice : flag.choices)
    if (!(flag.initial == Value(choice))) variable.values.emplace_back(choice);
  return variable;
}

std::vector<Variable> of_numbers(const Option& option, const std::vector<std::string>& conditions) {
  Variable variable{.name = option.name, .values = {}, .finite = false};
  for (const double x : critical_numbers(option, conditions)) variable.values.emplace_back(x);
  if (option.type == Option::Type::nullable) variable.values.emplace_back(nullptr);
  if (option.type != Option::Type::numbers) return {variable};
  variable.values.emplace_back(std::numeric_limits<double>::quiet_NaN());
  std::vector<Variable> all(static_cast<std::size_t>(option.count), variable);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].index = i;
  return all;
}

std::vector<Variable> variables_of(const Manifest& rule, const Dependencies& on) {
  std::vector<Variable> all;
  for (const std::string& name : on.names()) {
    const Option* const option = rule.find(name);
    if (name == "dims") {
      if (!on.names().contains(kSizes)) all.push_back(dimensions());
    } else if (name == kSizes) {
      all.push_back(sizes(on.conditions()));
    } else if (option == nullptr || option->lifted || option->type == Option::Type::list) {
      continue;
    } else if (option->is_flag()) {
      all.push_back(of_flag(*option));
    } else {
      for (Variable& one : of_numbers(*option, on.conditions())) all.push_back(std::move(one));
    }
  }
  return all;
}

class Tries {
 public:
  Tries(const Manifest& rule, std::vector<Variable> variables, const Wanted& wanted)
      : rule_(rule), variables_(std::move(variables)), wanted_(wanted) {}

  Search run() {
    Search result;
    const std::size_t most = std::min(kMostChanges, variables_.size());
    for (std::size_t changes = 0; changes <= most && !result.found && tries_ < kMostTries;
         ++changes)
      result.found = from(0, changes, {});
    const bool finite = std::all_of(variables_.begin(), variables_.end(),
                                    [](const Variable& one) { return one.finite; });
    result.complete = finite && tries_ < kMostTries && most == variables_.size();
    return result;
  }

 private:
  // Changes `left` more variables, with index `first` or larger.
  std::optional<RuleOptions> from(std::size_t first, std::size_t left, const RuleOptions& options) {
    if (left == 0) {
      ++tries_;
      return wanted_(options) ? std::optional(options) : std::nullopt;
    }
    for (std::size_t i = first; i + left <= variables_.size(); ++i)
      for (const Value& value : variables_[i].values) {
        if (tries_ >= kMostTries) return {};
        RuleOptions changed = options;
        change(changed, rule_, variables_[i], value);
        if (auto found = from(i + 1, left - 1, changed)) return found;
      }
    return {};
  }

  const Manifest& rule_;
  const std::vector<Variable> variables_;
  const Wanted& wanted_;
  int tries_ = 0;
};

}  // namespace

std::vector<double> critical_numbers(const Option& option,
                                     const std::vector<std::string>& conditions) {
  std::set<double> at = {0, 1};
  for (const auto& limit : {option.constraint.low, option.constraint.high})
    if (limit) at.insert(*limit);
  if (option.initial.is_number()) at.insert(option.initial.number());
  if (option.initial.is_numbers())
    for (const double x : option.initial.numbers())
      if (std::isfinite(x)) at.insert(x);
  for (const std::string& condition : conditions)
    for (const double x : numbers_in(condition)) at.insert(x);
  std::set<double> all = at;
  const bool whole = option.constraint.is_whole();
  for (auto next = std::next(at.begin()); next != at.end(); ++next)
    for (const double share : {0.25, 0.5, 0.75})
      all.insert(*std::prev(next) + share * (*next - *std::prev(next)));
  for (const double beyond : {1, 2, 3})
    all.insert({*at.begin() - beyond, 2 * *at.rbegin() + beyond});
  if (whole)
    for (const double x : at) all.insert({x - 1, x + 1, 2 * x});
  std::vector<double> numbers(all.begin(), all.end());
  std::erase_if(numbers, [&](double x) { return !option.constraint.accepts(x); });
  return numbers;
}

Search search(const Manifest& rule, const std::vector<std::string>& names, const Wanted& wanted) {
  Dependencies on(rule);
  for (const std::string& name : names) on.add(name);
  return Tries(rule, variables_of(rule, on), wanted).run();
}

}  // namespace jitstep::emulation
