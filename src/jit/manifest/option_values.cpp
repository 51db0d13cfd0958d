#include "jitstep/jit/option_values.h"

#include <algorithm>
#include <cmath>

#include "jit/base/closest.h"
#include "jit/base/numbers.h"
#include "jit/base/text.h"
#include "jit/manifest/null_elements.h"
#include "jit/manifest/option_layout.h"
#include "jit/manifest/parameter_sizes.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kAnyDims = 2;

// For conditions that read no sizes.
ParameterSizes any_sizes() { return typical_sizes(kAnyDims); }

// The first null element that must be a number.
std::optional<std::size_t> invalid_null(const Option& option, const Value& value) {
  if (!value.is_numbers()) return {};
  const Value::Numbers& numbers = value.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (std::isnan(numbers[i]) && !may_be_null(option, i)) return i;
  return {};
}

}  // namespace

OptionValues::OptionValues(const Manifest& rule, const Manifest& gradient)
    : layout_(std::make_shared<const OptionLayout>(rule, gradient)), packed_(layout_->defaults) {}

OptionValues::OptionValues(const std::string& rule, std::shared_ptr<const Catalog> snapshot)
    : catalog_(std::move(snapshot)),
      layout_(catalog_->option_layout(rule)),
      packed_(layout_->defaults) {}

OptionValues::OptionValues(const std::string& rule, const Catalog& catalog)
    : OptionValues(rule, catalog.snapshot()) {}

const Manifest& OptionValues::rule() const { return layout_->rule; }

bool OptionValues::operator==(const OptionValues& other) const {
  return &layout_->rule == &other.layout_->rule &&
         std::equal(packed_.begin(), packed_.end(), other.packed_.begin(), other.packed_.end(),
                    same_number);
}

std::vector<std::string> OptionValues::names() const {
  std::vector<std::string> names;
  for (const PackedOption& one : layout_->options) names.push_back(one.option->name);
  return names;
}

const PackedOption& OptionValues::find(std::string_view name) const {
  if (const PackedOption* const found = layout_->find(name)) return *found;
  throw Error(str_cat(rule().name, " has no option \"", name, "\"", did_you_mean(name, names()),
                      ". Options: ", joined(names())));
}

const Option& OptionValues::declaration(std::string_view name) const { return *find(name).option; }

Value OptionValues::get(std::string_view name) const { return find(name).value(packed_); }

void OptionValues::set(std::string_view name, const Value& value) {
  const PackedOption& one = find(name);
  // In C++, `{{1.0}}` is a number and no list of one.
  const bool is_list_of_one = one.option->type == Option::Type::list && value.is_number();
  const Value given = is_list_of_one ? Value(Value::Numbers{value.number()}) : value;
  if (const auto problem = one.option->type_problem(given))
    throw Error(str_cat(rule().name, ": the option \"", name, "\" ", *problem));
  one.set(packed_, given);
}

std::vector<std::string> OptionValues::changed() const {
  std::vector<std::string> out;
  for (const PackedOption& one : layout_->options)
    if (!(one.value(packed_) == one.option->initial)) out.push_back(one.option->name);
  return out;
}

void OptionValues::construct() {
  for (const PackedOption& one : layout_->options)
    if (!one.option->at_construction.empty() && one.value(packed_).is_null())
      one.set(packed_, get(one.option->at_construction));
}

// Recursive, because the expression of a lifted flag may use earlier lifted flags. An option hides the size of its
// name.
Value OptionValues::value_in(const Manifest& manifest, std::string_view name,
                             const Sizes& sizes) const {
  for (const PackedOption& one : layout_->options_of(manifest))
    if (one.option->name == name) return one.value(packed_);
  const Option* const other =
      manifest.find(name);  // lifted, or a common option that the rule hides
  if (other == nullptr) return value_of_size(name, sizes);
  return other->lifted ? Value(holds(*other->lifted, manifest, sizes)) : other->initial;
}

bool OptionValues::holds(const Expression& condition, const Manifest& manifest,
                         const Sizes& sizes) const {
  return condition.holds([&](std::string_view name) { return value_in(manifest, name, sizes); });
}

void OptionValues::check_ranges(bool only_integers) const {
  for (const PackedOption& one : layout_->options) {
    const Constraint& range = one.option->constraint;
    const Value value = one.value(packed_);
    if (const auto index = only_integers ? invalid_null(*one.option, value) : std::nullopt)
      throw OptionError(
          str_cat(rule().name, ": ", one.option->name, "[", *index, "] must be a number, not null"),
          one.option->name, *index);
    if (only_integers && !range.is_whole()) continue;
    if (const auto index = one.option->out_of_range(value))
      throw OptionError(rule().name + ": " + *one.option->range_problem(value), one.option->name,
                        *index);
  }
}

void OptionValues::validate() const {
  check_ranges(false);
  refuse(any_sizes(), false);
}

void OptionValues::validate_integers() const { check_ranges(true); }

void OptionValues::validate_for(const Sizes& sizes) const { refuse(sizes, true); }

void OptionValues::validate_dims(int dims) const { validate_for(typical_sizes(dims)); }

void OptionValues::validate_lists(std::size_t parameters) const {
  for (const PackedOption& one : layout_->options) {
    if (one.option->type != Option::Type::list) continue;
    const std::size_t count = one.value(packed_).numbers().size();
    if (count != 0 && count < parameters)
      throw Error(str_cat(rule().name, ": the option \"", one.option->name, "\" has ",
                          counted(count, "number"), " for ", counted(parameters, "parameter"),
                          ". Give one number per parameter of the group, or an empty list."));
  }
}

// Whether a condition reads sizes, itself or through lifted flags.
bool OptionValues::depends_on_sizes(const Expression& condition, bool or_on_dims) const {
  if (condition.reads_sizes() || (or_on_dims && condition.reads("dims"))) return true;
  return std::any_of(rule().flags.begin(), rule().flags.end(), [&](const Option& flag) {
    return flag.lifted && condition.reads(flag.name) && depends_on_sizes(*flag.lifted, or_on_dims);
  });
}

bool OptionValues::depends_on_sizes(const Option& flag) const {
  return flag.lifted && depends_on_sizes(*flag.lifted, false);
}

// `by_sizes` selects the conditions that read sizes or the number of dimensions, or the others.
void OptionValues::refuse(const Sizes& sizes, bool by_sizes) const {
  for (const Refusal& refusal : rule().refusals)
    if (depends_on_sizes(refusal.condition, true) == by_sizes &&
        holds(refusal.condition, rule(), sizes))
      throw Error(str_cat(rule().name, ": ", refusal.sentence));
}

NamedValues OptionValues::flags_of(const Manifest& manifest, const Sizes& sizes) const {
  NamedValues flags;
  for (const Option& flag : manifest.flags) flags[flag.name] = value_in(manifest, flag.name, sizes);
  return flags;
}

NamedValues OptionValues::flags_for(const Sizes& sizes) const { return flags_of(rule(), sizes); }

NamedValues OptionValues::flags(int dims) const { return flags_for(typical_sizes(dims)); }

bool OptionValues::may_have_flags(const NamedValues& flags, int dims) const {
  const NamedValues own = this->flags(dims);
  return std::all_of(rule().flags.begin(), rule().flags.end(), [&](const Option& flag) {
    return depends_on_sizes(flag) || own.at(flag.name) == flags.at(flag.name);
  });
}

NamedValues OptionValues::gradient_flags() const {
  return flags_of(layout_->gradient, any_sizes());
}

// Whether all values are equal on which anything else depends.
bool OptionValues::same_dependent_values(const OptionValues& other) const {
  const auto& independent = layout_->independent_numbers();
  if (packed_.size() != other.packed_.size()) return false;
  for (std::size_t i = 0; i < packed_.size(); ++i)
    if ((i >= independent.size() || independent[i] == nullptr) &&
        !same_number(packed_[i], other.packed_[i]))
      return false;
  return true;
}

// Whether an option decides with the sizes of a parameter which flags or matrices it has.
bool OptionValues::has_sized_conditions() const {
  const auto& flags = rule().flags;
  const auto& matrices = rule().matrices;
  return std::any_of(flags.begin(), flags.end(),
                     [&](const Option& flag) { return depends_on_sizes(flag); }) ||
         std::any_of(matrices.begin(), matrices.end(), [](const auto& matrix) {
           return matrix.largest && !matrix.largest->option.empty();
         });
}

bool OptionValues::same_flags(const OptionValues& other) const {
  if (has_sized_conditions()) return same_dependent_values(other);
  for (const Manifest* const manifest : {&layout_->rule, &layout_->gradient}) {
    const auto& flags = manifest->flags;
    const bool by_dims = std::any_of(flags.begin(), flags.end(), [](const Option& flag) {
      return flag.lifted && flag.lifted->reads("dims");
    });
    for (int dims = by_dims ? 1 : kMaxDims; dims <= kMaxDims; ++dims) {
      const Sizes sizes = typical_sizes(dims);
      for (const Option& flag : flags)
        if (!(value_in(*manifest, flag.name, sizes) == other.value_in(*manifest, flag.name, sizes)))
          return false;
    }
  }
  return true;
}

std::vector<double> OptionValues::hyper() const {
  return {packed_.begin(), packed_.begin() + kMaxHyper};
}

HyperParams OptionValues::at_step(std::int64_t t, std::uint64_t seed) const {
  HyperParams params{};
  std::copy_n(packed_.begin(), kMaxHyper, params.hyper);
  for (std::size_t i = 0; i < rule().slots.size(); ++i)
    params.initial[i] = initial(rule().slots[i].initial);
  params.t = t;
  params.seed = seed;
  return params;
}

double OptionValues::initial(const Initial& initial, std::size_t parameter) const {
  if (initial.option.empty()) return initial.number;
  const Value value = get(initial.option);
  if (!value.is_numbers()) return value.number();
  if (value.numbers().empty()) return initial.number;
  if (parameter < value.numbers().size()) return value.numbers()[parameter];
  throw Error(str_cat(rule().name, ": the option \"", initial.option, "\" has ",
                      counted(value.numbers().size(), "number"), ", none for parameter ", parameter,
                      ". Give one number per parameter."));
}

}  // namespace jitstep::jit
