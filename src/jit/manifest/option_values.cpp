#include "jitstep/jit/option_values.h"

#include <algorithm>
#include <limits>

#include "jit/base/text.h"
#include "jitstep/args.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

NamedValues defaults_of(const Manifest& manifest) {
  NamedValues values;
  for (const auto* options : {&manifest.hyper, &manifest.flags}) {
    for (const Option& option : *options) {
      if (!option.lifted) values[option.name] = option.initial;
    }
  }
  return values;
}

// Flags in the order of declaration, as a lifted one may use those before it.
NamedValues flags_of(const Manifest& manifest, NamedValues values, int dims) {
  NamedValues flags;
  values["dims"] = dims;
  for (const Option& flag : manifest.flags) {
    Value value = flag.lifted ? Value(flag.lifted->holds(values)) : values.at(flag.name);
    values[flag.name] = value;
    flags[flag.name] = std::move(value);
  }
  return flags;
}

void append_numbers(const Manifest& manifest, const NamedValues& values,
                    std::vector<double>::iterator to) {
  for (const Option& option : manifest.hyper) {
    const Value& value = values.at(option.name);
    if (option.type == Option::Type::list) {
      *to = 0;
    } else if (value.is_numbers()) {
      std::copy(value.numbers().begin(), value.numbers().end(), to);
    } else {
      *to = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
    }
    to += option.doubles();
  }
}

void check_ranges(const Manifest& manifest, const NamedValues& values, const std::string& rule) {
  for (const Option& option : manifest.hyper) {
    if (const auto problem = option.range_problem(values.at(option.name)))
      throw Error(rule + ": " + *problem);
  }
}

}  // namespace

OptionValues::OptionValues(const Manifest& rule, const Manifest& gradient)
    : rule_(&rule), gradient_(&gradient), own_(defaults_of(rule)), common_(defaults_of(gradient)) {}

OptionValues::OptionValues(const std::string& rule, const Catalog& catalog, int edition)
    : OptionValues(catalog.rule(rule, edition), catalog.gradient()) {
  edition_ = edition != 0 ? edition : catalog.edition();
}

std::vector<std::string> OptionValues::names() const {
  std::vector<std::string> names = rule_->option_names();
  for (std::string& name : gradient_->option_names()) {
    if (rule_->find(name) == nullptr) names.push_back(std::move(name));
  }
  return names;
}

const Manifest* OptionValues::owner(std::string_view name) const {
  for (const Manifest* manifest : {rule_, gradient_}) {
    const Option* const option = manifest->find(name);
    if (option != nullptr) return option->lifted ? nullptr : manifest;
  }
  return nullptr;
}

const Option& OptionValues::declaration(std::string_view name) const {
  if (const Manifest* manifest = owner(name)) return *manifest->find(name);
  throw Error(text(rule_->name, " has no option \"", name, "\"; it has ", joined(names())));
}

const Value& OptionValues::get(std::string_view name) const {
  declaration(name);
  return (owner(name) == rule_ ? own_ : common_).find(name)->second;
}

void OptionValues::set(std::string_view name, Value value) {
  const Option& option = declaration(name);
  if (const auto problem = option.type_problem(value))
    throw Error(text(rule_->name, ": the option \"", name, "\" ", *problem));
  (owner(name) == rule_ ? own_ : common_).find(name)->second = std::move(value);
}

std::vector<std::string> OptionValues::changed() const {
  std::vector<std::string> out;
  for (std::string& name : names()) {
    if (!(get(name) == declaration(name).initial)) out.push_back(std::move(name));
  }
  return out;
}

void OptionValues::construct() {
  for (const Option& option : rule_->hyper) {
    Value& value = own_.find(option.name)->second;
    if (!option.at_construction.empty() && value.is_null()) value = get(option.at_construction);
  }
}

void OptionValues::validate() const {
  check_ranges(*rule_, own_, rule_->name);
  check_ranges(*gradient_, common_, rule_->name);
  NamedValues values = own_;
  values.merge(flags());
  refuse(values, false);
}

void OptionValues::validate_dims(int dims) const {
  NamedValues values = own_;
  values.merge(flags(dims));
  values["dims"] = dims;
  refuse(values, true);
}

// By the conditions that depend on a parameter's dimensions, or by those that do not.
void OptionValues::refuse(const NamedValues& values, bool by_dims) const {
  for (const Refusal& refusal : rule_->refusals)
    if (refusal.condition.reads("dims") == by_dims && refusal.condition.holds(values))
      throw Error(text(rule_->name, ": ", refusal.sentence));
}

NamedValues OptionValues::flags(int dims) const { return flags_of(*rule_, own_, dims); }

NamedValues OptionValues::gradient_flags() const { return flags_of(*gradient_, common_, 0); }

std::vector<double> OptionValues::hyper() const {
  std::vector<double> numbers(kMaxHyper, 0.0);
  append_numbers(*gradient_, common_, numbers.begin());
  append_numbers(*rule_, own_, numbers.begin() + kCommonHyper);
  return numbers;
}

HyperSet OptionValues::at_step(std::int64_t t, std::uint64_t seed) const {
  HyperSet set{};
  const std::vector<double> numbers = hyper();
  std::copy(numbers.begin(), numbers.end(), set.hyper);
  for (std::size_t i = 0; i < rule_->slots.size(); ++i)
    set.initial[i] = initial(rule_->slots[i].initial);
  set.t = t;
  set.seed = seed;
  return set;
}

double OptionValues::initial(const Initial& initial, std::size_t parameter) const {
  if (initial.option.empty()) return initial.number;
  const Value& value = get(initial.option);
  if (!value.is_numbers()) return value.number();
  if (value.numbers().empty()) return initial.number;
  if (parameter < value.numbers().size()) return value.numbers()[parameter];
  throw Error(text(rule_->name, ": the option \"", initial.option, "\" holds ",
                   value.numbers().size(), " numbers, none for parameter ", parameter));
}

}  // namespace jitstep::jit
