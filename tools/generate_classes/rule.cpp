#include "rule.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::generated {
namespace {

using jit::Manifest;
using jit::Option;
using jit::OptionValues;
using jit::str_cat;
using jit::Value;

// "nvlamb" without a class line becomes "Nvlamb".
std::string class_of(const Manifest& rule) {
  if (!rule.class_name.empty()) return rule.class_name;
  std::string name;
  bool start = true;
  for (const char c : rule.name) {
    if (c != '_')
      name += start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    start = c == '_';
  }
  return name;
}

// torch's options classes and the order of their members. jitstep's classes of the same names have the same order: see
// Options.
const std::map<std::string, std::vector<std::string>>& torch_members() {
  static const std::map<std::string, std::vector<std::string>> members = {
      {"Adam", {"lr", "betas", "eps", "weight_decay", "amsgrad"}},
      {"AdamW", {"lr", "betas", "eps", "weight_decay", "amsgrad"}},
      {"SGD", {"lr", "momentum", "dampening", "weight_decay", "nesterov"}},
      {"RMSprop", {"lr", "alpha", "eps", "weight_decay", "momentum", "centered"}},
      {"Adagrad", {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"}}};
  return members;
}

std::string tuple_of(int count) {
  std::string out = "std::tuple<";
  for (int i = 0; i < count; ++i) out += i == 0 ? "double" : ", double";
  return out + ">";
}

std::string number(double x) {
  if (x != x) return "std::numeric_limits<double>::quiet_NaN()";
  return jit::to_string(x);
}

bool takes(const OptionValues& values, int dims) {
  try {
    values.validate_dims(dims);
    return true;
  } catch (const jit::Error&) {
    return false;
  }
}

}  // namespace

bool Rule::is_torchs() const { return torch_members().count(name) != 0; }

std::vector<const Option*> Rule::members() const {
  std::vector<const Option*> members = options;
  if (!is_torchs()) return members;
  const auto& first = torch_members().at(name);
  const auto rank = [&](const Option* option) {
    return std::find(first.begin(), first.end(), option->name) - first.begin();
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const Option* a, const Option* b) { return rank(a) < rank(b); });
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool torchs_type = i < members.size() && (members[i]->type == Option::Type::number ||
                                                    members[i]->type == Option::Type::boolean ||
                                                    members[i]->type == Option::Type::numbers);
    if (!torchs_type || members[i]->name != first[i])
      throw jit::Error(str_cat("the rule ", manifest.name, " has no option ", first[i],
                               " of the type that torch::optim::", name,
                               "Options has. Declare it, or rename the class."));
  }
  return members;
}

Rule rule_of(const Manifest& manifest, const jit::Catalog& catalog) {
  const OptionValues values(manifest, catalog.gradient());
  Rule rule{manifest, class_of(manifest), values.layout(), {}};
  rule.of_matrices = takes(values, 2) && !takes(values, 1);
  for (const jit::PackedOption& one : rule.layout.options) {
    rule.options.push_back(one.option);
    rule.has_lr =
        rule.has_lr || (one.option->name == "lr" && one.option->type == Option::Type::number);
  }
  return rule;
}

std::string type_of(const Option& option) {
  switch (option.type) {
    case Option::Type::number:
      return "double";
    case Option::Type::nullable:
      return "std::optional<double>";
    case Option::Type::numbers:
      return tuple_of(option.count);
    case Option::Type::list:
      return "std::vector<double>";
    case Option::Type::boolean:
      return "bool";
    case Option::Type::choice:
      return option.enumeration;
  }
  return "";
}

std::string initializer(const Option& option) {
  const Value& value = option.initial;
  if (value.is_null()) return "{}";
  if (value.is_choice()) return option.enumeration + "::" + value.choice();
  if (value.is_bool()) return value.boolean() ? "true" : "false";
  if (value.is_number()) return number(value.number());
  std::string out;
  for (const double x : value.numbers()) out += (out.empty() ? "{" : ", ") + number(x);
  return out.empty() ? "{}" : out + "}";
}

std::string remark(const Option& option) {
  std::string out;
  if (!option.is_flag()) out = to_string(option.constraint) + "; ";
  out += "default " + to_string(option.initial);
  if (!option.at_construction.empty())
    out += ", which becomes " + option.at_construction + " when a parameter group is made";
  if (!option.note.empty()) out += ". " + option.note;
  return out;
}

std::string comment(const std::string& text, const std::string& indent) {
  std::istringstream in(text);
  std::string out, line = indent + "///", word;
  while (in >> word) {
    if (line.size() + 1 + word.size() > 100) {
      out += line + "\n";
      line = indent + "///";
    }
    line += " " + word;
  }
  return out + line + "\n";
}

}  // namespace jitstep::generated
