#include "jitstep/jit/manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>

#include "jit/base/closest.h"
#include "jit/base/lock_free_static.h"
#include "jit/base/text.h"
#include "jit/manifest/null_elements.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

int bytes_of_type(const std::string& type, Dtype parameter) {
  if (type == "real") return real_bytes(parameter);
  if (type == "double") return 8;
  if (type == "float" || type == "uint32" || type == "int") return 4;
  return type == "uint16" ? 2 : 1;
}

// "expects a number". The option's name comes before it in messages.
std::string expectation(const Option& option) {
  switch (option.type) {
    case Option::Type::number:
      return "expects a number";
    case Option::Type::nullable:
      return "expects a number or null";
    case Option::Type::numbers:
      return str_cat("expects ", option.count, " numbers");
    case Option::Type::list:
      return "expects a list of numbers, one for each parameter";
    case Option::Type::boolean:
      return "expects true or false";
    case Option::Type::choice:
      break;
  }
  return "expects one of " + joined(option.choices);
}

bool has_type(const Option& option, const Value& value) {
  switch (option.type) {
    case Option::Type::number:
      return value.is_number();
    case Option::Type::nullable:
      return value.is_number() || value.is_null();
    case Option::Type::numbers:
      return value.is_numbers() && value.numbers().size() == static_cast<std::size_t>(option.count);
    case Option::Type::list:
      return value.is_numbers();
    case Option::Type::boolean:
      return value.is_bool();
    case Option::Type::choice:
      break;
  }
  return value.is_choice() && std::find(option.choices.begin(), option.choices.end(),
                                        value.choice()) != option.choices.end();
}

const RuleDefault* chosen(const std::vector<RuleDefault>& defaults, const NamedValues& flags) {
  for (const RuleDefault& one : defaults) {
    if (!one.condition || one.condition->holds(flags)) return &one;
  }
  return nullptr;
}

template <class Named>
const Named* find_named(const std::vector<Named>& all, std::string_view name) {
  for (const Named& one : all) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

std::unique_ptr<const NamedValues> no_options() { return std::make_unique<const NamedValues>(); }

// Rules and codecs may convert an integer option to int.
constexpr int kMostInt = std::numeric_limits<int>::max();
bool fits_int(double x) { return std::abs(x) <= kMostInt; }

}  // namespace

bool Constraint::accepts(double x) const {
  if (!std::isfinite(x) || (is_whole() && !fits_int(x))) return false;
  if (low && (above ? x <= *low : x < *low)) return false;
  if (high && (below ? x >= *high : x > *high)) return false;
  if (is_whole() && x != std::floor(x)) return false;
  int exponent = 0;
  return !power_of_two || (x >= 1 && std::frexp(x, &exponent) == 0.5);
}

bool Constraint::covers(const Constraint& other) const {
  const auto within = [](const auto& own, bool open, const auto& others, bool others_open,
                         int sign) {
    if (!own) return true;
    return others && (sign * *others > sign * *own || (*others == *own && (!open || others_open)));
  };
  const bool from_one = other.power_of_two && other.low.value_or(0) < 1;
  const auto lowest = from_one ? std::optional<double>(1) : other.low;
  return within(low, above, lowest, other.above && !from_one, 1) &&
         within(high, below, other.high, other.below, -1) && (!integer || other.is_whole()) &&
         (!power_of_two || other.power_of_two);
}

std::string to_string(const Constraint& constraint) {
  std::string out;
  const auto& [low, high, above, below, integer, power_of_two] = constraint;
  if (low && high)
    out = str_cat("in ", above ? "(" : "[", to_string(*low), ", ", to_string(*high),
                  below ? ")" : "]");
  else if (low)
    out = str_cat(above ? "> " : ">= ", to_string(*low));
  else if (high)
    out = str_cat(below ? "< " : "<= ", to_string(*high));
  const std::string kind = power_of_two ? "a power of two" : integer ? "an integer" : "";
  if (out.empty()) return kind.empty() ? "finite" : kind;
  return kind.empty() ? out : kind + " " + out;
}

std::optional<std::string> Option::type_problem(const Value& value) const {
  if (has_type(*this, value)) return {};
  const std::string text = to_string(value);
  const std::string shown = value.is_choice() ? "\"" + text + "\"" : text;
  return expectation(*this) + ", not " + shown + did_you_mean(text, choices);
}

std::optional<std::size_t> Option::out_of_range(const Value& value) const {
  if (value.is_number() && !constraint.accepts(value.number())) return 0;
  if (!value.is_numbers()) return {};
  const auto& numbers = value.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool null = std::isnan(numbers[i]) && may_be_null(*this, i);
    if (!null && !constraint.accepts(numbers[i])) return i;
  }
  return {};
}

std::optional<std::string> Option::range_problem(const Value& value) const {
  const auto index = out_of_range(value);
  if (!index) return {};
  const double x = value.is_numbers() ? value.numbers()[*index] : value.number();
  const std::string what = value.is_numbers() ? str_cat(name, "[", *index, "]") : name;
  const std::string must = to_string(constraint);
  const bool name_finite = !std::isfinite(x) && must != "finite";
  std::string limit;
  if (constraint.is_whole() && std::isfinite(x) && !fits_int(x))
    limit = x > 0 ? str_cat(", at most ", kMostInt) : str_cat(", at least ", -kMostInt);
  return str_cat(what, " is ", to_string(x), " and must be ", name_finite ? "finite and " : "",
                 must, limit);
}

int bytes_of(const std::vector<Field>& fields, Dtype parameter) {
  int end = 0, alignment = 1;
  for (const Field& field : fields) {
    const int bytes = bytes_of_type(field.type, parameter);
    end = (end + bytes - 1) / bytes * bytes + bytes;
    alignment = std::max(alignment, bytes);
  }
  return std::max(1, (end + alignment - 1) / alignment * alignment);
}

const Option* Manifest::find(std::string_view option) const {
  const Option* const number = find_named(hyper, option);
  return number != nullptr ? number : find_named(flags, option);
}

int Manifest::input(std::string_view wanted) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const RuleInput& one) { return one.name == wanted; });
  return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
}

bool Manifest::has_number(std::string_view option) const {
  return find_named(hyper, option) != nullptr;
}

std::vector<std::string> Manifest::option_names() const {
  std::vector<std::string> names;
  for (const auto* options : {&hyper, &flags}) {
    for (const Option& option : *options) {
      if (!option.lifted) names.push_back(option.name);
    }
  }
  return names;
}

int Manifest::doubles() const {
  int sum = 0;
  for (const Option& option : hyper) sum += option.doubles();
  return sum;
}

bool Manifest::block_scaled() const {
  const auto fine = [](const auto& x) {
    return x.domain.kind != Domain::Kind::tensor && x.domain.kind != Domain::Kind::all;
  };
  return find("block") != nullptr || std::any_of(reductions.begin(), reductions.end(), fine) ||
         std::any_of(aux_state.begin(), aux_state.end(), fine);
}

int Manifest::code_bits(Dtype parameter) const {
  if (code == "NoCode") return 0;
  return code == "Nibble" ? 4 : 8 * bytes_of_type(code, parameter);
}

int Manifest::meta_bytes() const { return has_meta ? bytes_of(meta, Dtype::float32) : 0; }

int Manifest::residual_bytes() const {
  return residual.empty() ? 0 : bytes_of_type(residual, Dtype::float32);
}

const NamedValues& Manifest::codec_options(std::string_view codec) const {
  for (const RuleDefault& one : default_states)
    if (one.value == codec && !one.options.empty()) return one.options;
  return lock_free_static<no_options>();
}

std::string Manifest::default_state(const NamedValues& values) const {
  const RuleDefault* const found = chosen(default_states, values);
  return found == nullptr ? "" : found->value;
}

std::optional<long long> Manifest::min_quantized_size(const NamedValues& values) const {
  const RuleDefault* const found = chosen(min_quantized_sizes, values);
  if (found == nullptr) return {};
  double size = 0;
  std::from_chars(found->value.data(), found->value.data() + found->value.size(), size);
  return static_cast<long long>(size);
}

}  // namespace jitstep::jit
