#include "jitstep/jit/option_values.h"

#include <algorithm>
#include <cmath>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jit/manifest/option_layout.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kAnyDims = 2;  // for conditions that do not read the number of dimensions

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

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
  if (const auto problem = one.option->type_problem(value))
    throw Error(str_cat(rule().name, ": the option \"", name, "\" ", *problem));
  one.set(packed_, value);
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

// Recursive, because the expression of a lifted flag may use earlier lifted flags.
Value OptionValues::value_in(const Manifest& manifest, std::string_view name, int dims) const {
  if (name == "dims") return dims;
  for (const PackedOption& one : layout_->options_of(manifest))
    if (one.option->name == name) return one.value(packed_);
  const Option& other = *manifest.find(name);  // lifted, or a common option that the rule hides
  return other.lifted ? Value(holds(*other.lifted, manifest, dims)) : other.initial;
}

bool OptionValues::holds(const Expression& condition, const Manifest& manifest, int dims) const {
  return condition.holds([&](std::string_view name) { return value_in(manifest, name, dims); });
}

void OptionValues::validate() const {
  for (const PackedOption& one : layout_->options) {
    const Value value = one.value(packed_);
    if (const auto index = one.option->out_of_range(value))
      throw OptionError(rule().name + ": " + *one.option->range_problem(value), one.option->name,
                        *index);
  }
  refuse(kAnyDims, false);
}

void OptionValues::validate_dims(int dims) const { refuse(dims, true); }

// `by_dims` selects the conditions that read `dims`, or the others.
void OptionValues::refuse(int dims, bool by_dims) const {
  for (const Refusal& refusal : rule().refusals)
    if (refusal.condition.reads("dims") == by_dims && holds(refusal.condition, rule(), dims))
      throw Error(str_cat(rule().name, ": ", refusal.sentence));
}

NamedValues OptionValues::flags_of(const Manifest& manifest, int dims) const {
  NamedValues flags;
  for (const Option& flag : manifest.flags) flags[flag.name] = value_in(manifest, flag.name, dims);
  return flags;
}

NamedValues OptionValues::flags(int dims) const { return flags_of(rule(), dims); }

NamedValues OptionValues::gradient_flags() const { return flags_of(layout_->gradient, kAnyDims); }

bool OptionValues::same_flags(const OptionValues& other) const {
  for (const Manifest* const manifest : {&layout_->rule, &layout_->gradient}) {
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
                      value.numbers().size(), " numbers, none for parameter ", parameter,
                      ". Give one number per parameter."));
}

}  // namespace jitstep::jit
