#include "jit/manifest/option_layout.h"

#include <algorithm>
#include <cstring>

#include "jit/base/text.h"
#include "jitstep/hyper_params.h"

namespace jitstep::jit {
namespace {

using Type = Option::Type;

// The index of a list's length.
std::size_t list_index(const PackedOption& one, const PackedValues& all) {
  std::size_t index = one.index;
  for (int list = 0; list < one.list; ++list) index += 1 + static_cast<std::size_t>(all[index]);
  return index;
}

std::ptrdiff_t offset(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }

Value::Numbers numbers_at(const PackedValues& all, std::size_t index, std::size_t count) {
  return {all.begin() + offset(index), all.begin() + offset(index + count)};
}

void set_list(PackedValues& all, std::size_t index, const Value::Numbers& numbers) {
  const auto first = all.begin() + offset(index);
  const auto next = all.erase(first, first + 1 + static_cast<std::ptrdiff_t>(*first));
  all.insert(all.insert(next, static_cast<double>(numbers.size())) + 1, numbers.begin(),
             numbers.end());
}

bool reads(const std::vector<Option>& flags, const std::string& name) {
  return std::any_of(flags.begin(), flags.end(),
                     [&](const Option& flag) { return flag.lifted && flag.lifted->reads(name); });
}

// True if the rule computes more from the option than its numbers in HyperParams.
bool depends_on(const Manifest& manifest, const std::string& name) {
  return reads(manifest.flags, name) ||
         std::any_of(manifest.refusals.begin(), manifest.refusals.end(),
                     [&](const Refusal& refusal) { return refusal.condition.reads(name); }) ||
         std::any_of(manifest.slots.begin(), manifest.slots.end(),
                     [&](const Slot& slot) { return slot.initial.option == name; }) ||
         std::any_of(manifest.matrices.begin(), manifest.matrices.end(), [&](const auto& matrix) {
           return matrix.largest && matrix.largest->option == name;
         });
}

}  // namespace

bool same_bits(const PackedValues& a, const PackedValues& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

Value PackedOption::value(const PackedValues& all) const {
  switch (option->type) {
    case Type::number:
      return all[index];
    case Type::nullable:
      return is_null(all[index]) ? Value() : Value(all[index]);
    case Type::numbers:
      return numbers_at(all, index, static_cast<std::size_t>(option->count));
    case Type::list: {
      const std::size_t length = list_index(*this, all);
      return numbers_at(all, length + 1, static_cast<std::size_t>(all[length]));
    }
    case Type::boolean:
      return all[index] != 0;
    case Type::choice:
      break;
  }
  return option->choices.at(static_cast<std::size_t>(all[index]));
}

void PackedOption::set(PackedValues& all, const Value& value) const {
  switch (option->type) {
    case Type::number:
    case Type::nullable:
      all[index] = value.is_null() ? null_number() : value.number();
      break;
    case Type::numbers:
      std::copy(value.numbers().begin(), value.numbers().end(), all.begin() + offset(index));
      break;
    case Type::list:
      set_list(all, list_index(*this, all), value.numbers());
      break;
    case Type::boolean:
      all[index] = value.boolean() ? 1 : 0;
      break;
    case Type::choice: {
      const auto& choices = option->choices;
      const auto chosen = std::find(choices.begin(), choices.end(), value.choice());
      all[index] = static_cast<double>(chosen - choices.begin());
    }
  }
}

OptionLayout::OptionLayout(const Manifest& of_rule, const Manifest& common)
    : rule(of_rule), gradient(common), defaults(kMaxHyper, 0.0) {
  add(rule, kCommonHyper);
  own_ = options.size();
  add(gradient, 0);
  const std::size_t first_list = defaults.size();
  int lists = 0;
  for (PackedOption& one : options) {
    if (one.option->type != Type::list) continue;
    one = {one.option, first_list, lists++};
    defaults.push_back(0);
    one.set(defaults, one.option->initial);
  }
  independent_ = find_independent();
  text_ = make_text();
}

// Adds numbers and flags at their indices, and lists without one.
void OptionLayout::add(const Manifest& manifest, std::size_t number) {
  const auto add_one = [&](const Option& option, std::size_t index) {
    const PackedOption one{&option, index};
    if (option.type != Type::list) one.set(defaults, option.initial);
    if (&manifest == &rule || rule.find(option.name) == nullptr) options.push_back(one);
  };
  for (const Option& option : manifest.hyper) {
    add_one(option, number);
    number += static_cast<std::size_t>(option.doubles());
  }
  for (const Option& flag : manifest.flags) {
    if (flag.lifted) continue;
    defaults.push_back(0);
    add_one(flag, defaults.size() - 1);
  }
}

std::span<const PackedOption> OptionLayout::options_of(const Manifest& manifest) const {
  const std::span all(options);
  return &manifest == &rule ? all.first(own_) : all.subspan(own_);
}

const PackedOption* OptionLayout::find(std::string_view name) const {
  const auto found = std::find_if(options.begin(), options.end(), [&](const PackedOption& one) {
    return one.option->name == name;
  });
  return found == options.end() ? nullptr : &*found;
}

std::vector<const Option*> OptionLayout::find_independent() const {
  std::vector<const Option*> independent(kMaxHyper, nullptr);
  for (const Manifest* const manifest : {&rule, &gradient})
    for (const PackedOption& one : options_of(*manifest)) {
      if (one.option->is_flag() || one.option->type == Type::list ||
          depends_on(*manifest, one.option->name))
        continue;
      std::fill_n(independent.begin() + offset(one.index), one.option->doubles(), one.option);
    }
  return independent;
}

std::string OptionLayout::make_text() const {
  std::string text;
  for (const auto& [option, index, list] : options)
    text += str_cat(option->name, " ", index, " type ", static_cast<int>(option->type), " ",
                    option->is_flag() ? joined(option->choices) : std::to_string(option->doubles()),
                    "\n");
  return text;
}

}  // namespace jitstep::jit
