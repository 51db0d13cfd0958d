#include "jitstep/jit/option_values.h"

#include <algorithm>
#include <limits>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kAnyDims = 2;  // for conditions that do not read the number of dimensions

// Visits the options that users can set. The values of a manifest are stored in this order.
template <class Visit>
void for_each_set(const Manifest& manifest, const Visit& visit) {
  for (const auto* options : {&manifest.hyper, &manifest.flags})
    for (const Option& option : *options)
      if (!option.lifted) visit(option);
}

void append_numbers(const Manifest& manifest, const Value* value,
                    std::vector<double>::iterator to) {
  for (const Option& option : manifest.hyper) {
    if (option.type == Option::Type::list) {
      *to = 0;
    } else if (value->is_numbers()) {
      std::copy(value->numbers().begin(), value->numbers().end(), to);
    } else {
      *to = value->is_null() ? std::numeric_limits<double>::quiet_NaN() : value->number();
    }
    to += option.doubles();
    ++value;
  }
}

void check_ranges(const Manifest& manifest, const Value* value, const std::string& rule) {
  for (const Option& option : manifest.hyper) {
    if (const auto index = option.out_of_range(*value))
      throw OptionError(rule + ": " + *option.range_problem(*value), option.name, *index);
    ++value;
  }
}

}  // namespace

OptionValues::OptionValues(const Manifest& rule, const Manifest& gradient)
    : rule_(&rule), gradient_(&gradient) {
  for (const Manifest* manifest : {rule_, gradient_}) {
    if (manifest == gradient_) own_ = values_.size();
    for_each_set(*manifest, [&](const Option& option) { values_.push_back(option.initial); });
  }
}

OptionValues::OptionValues(const std::string& rule, std::shared_ptr<const Catalog> snapshot)
    : OptionValues(snapshot->rule(rule), snapshot->gradient()) {
  catalog_ = std::move(snapshot);
}

OptionValues::OptionValues(const std::string& rule, const Catalog& catalog)
    : OptionValues(rule, catalog.snapshot()) {}

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
  throw Error(str_cat(rule_->name, " has no option \"", name, "\"", did_you_mean(name, names()),
                      ". Options: ", joined(names())));
}

const Value* OptionValues::values_of(const Manifest& manifest) const {
  return values_.data() + (&manifest == rule_ ? 0 : own_);
}

std::size_t OptionValues::location(const Manifest& manifest, std::string_view name) const {
  std::size_t location = &manifest == rule_ ? 0 : own_, found = values_.size();
  for_each_set(manifest, [&](const Option& option) {
    if (option.name == name) found = location;
    ++location;
  });
  return found;
}

const Value& OptionValues::get(std::string_view name) const {
  declaration(name);
  return values_[location(*owner(name), name)];
}

void OptionValues::set(std::string_view name, Value value) {
  const Option& option = declaration(name);
  if (const auto problem = option.type_problem(value))
    throw Error(str_cat(rule_->name, ": the option \"", name, "\" ", *problem));
  values_[location(*owner(name), name)] = std::move(value);
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
    if (option.at_construction.empty()) continue;
    Value& value = values_[location(*rule_, option.name)];
    if (value.is_null()) value = get(option.at_construction);
  }
}

// Recursive, because the expression of a lifted flag may use earlier lifted flags.
Value OptionValues::value_in(const Manifest& manifest, std::string_view name, int dims) const {
  if (name == "dims") return dims;
  const Option& option = *manifest.find(name);
  if (!option.lifted) return values_[location(manifest, name)];
  return holds(*option.lifted, manifest, dims);
}

bool OptionValues::holds(const Expression& condition, const Manifest& manifest, int dims) const {
  return condition.holds([&](std::string_view name) { return value_in(manifest, name, dims); });
}

void OptionValues::validate() const {
  for (const Manifest* manifest : {rule_, gradient_})
    check_ranges(*manifest, values_of(*manifest), rule_->name);
  refuse(kAnyDims, false);
}

void OptionValues::validate_dims(int dims) const { refuse(dims, true); }

// `by_dims` selects the conditions that read `dims`, or the others.
void OptionValues::refuse(int dims, bool by_dims) const {
  for (const Refusal& refusal : rule_->refusals)
    if (refusal.condition.reads("dims") == by_dims && holds(refusal.condition, *rule_, dims))
      throw Error(str_cat(rule_->name, ": ", refusal.sentence));
}

NamedValues OptionValues::flags_of(const Manifest& manifest, int dims) const {
  NamedValues flags;
  for (const Option& flag : manifest.flags) flags[flag.name] = value_in(manifest, flag.name, dims);
  return flags;
}

NamedValues OptionValues::flags(int dims) const { return flags_of(*rule_, dims); }

NamedValues OptionValues::gradient_flags() const { return flags_of(*gradient_, kAnyDims); }

bool OptionValues::same_flags(const OptionValues& other) const {
  for (const Manifest* manifest : {rule_, gradient_}) {
    const auto& flags = manifest->flags;
    const bool by_dims = std::any_of(flags.begin(), flags.end(), [](const Option& flag) {
      return flag.lifted && flag.lifted->reads("dims");
    });
    for (const Option& flag : flags)
      for (int dims = by_dims ? 1 : kMaxDims; dims <= kMaxDims; ++dims)
        if (!(value_in(*manifest, flag.name, dims) == other.value_in(*manifest, flag.name, dims)))
          return false;
  }
  return true;
}

std::vector<double> OptionValues::hyper() const {
  std::vector<double> numbers(kMaxHyper, 0.0);
  append_numbers(*gradient_, values_of(*gradient_), numbers.begin());
  append_numbers(*rule_, values_of(*rule_), numbers.begin() + kCommonHyper);
  return numbers;
}

HyperParams OptionValues::at_step(std::int64_t t, std::uint64_t seed) const {
  HyperParams params{};
  const std::vector<double> numbers = hyper();
  std::copy(numbers.begin(), numbers.end(), params.hyper);
  for (std::size_t i = 0; i < rule_->slots.size(); ++i)
    params.initial[i] = initial(rule_->slots[i].initial);
  params.t = t;
  params.seed = seed;
  return params;
}

double OptionValues::initial(const Initial& initial, std::size_t parameter) const {
  if (initial.option.empty()) return initial.number;
  const Value& value = get(initial.option);
  if (!value.is_numbers()) return value.number();
  if (value.numbers().empty()) return initial.number;
  if (parameter < value.numbers().size()) return value.numbers()[parameter];
  throw Error(str_cat(rule_->name, ": the option \"", initial.option, "\" has ",
                      value.numbers().size(), " numbers, none for parameter ", parameter,
                      ". Give one number per parameter."));
}

}  // namespace jitstep::jit
