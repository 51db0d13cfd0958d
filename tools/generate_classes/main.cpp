// Writes the typed classes of all shipped rules from their manifests:
//   generate_classes <folder>   ->   <folder>/jitstep/rules.h and <folder>/jitstep/rules.cpp
// Options with torch-style setters, parameter state with torch's names, the optimizers.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "jit/base/text.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace {

using jitstep::jit::Catalog;
using jitstep::jit::Manifest;
using jitstep::jit::Option;
using jitstep::jit::OptionValues;
using jitstep::jit::Slot;
using jitstep::jit::text;
using jitstep::jit::Value;

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

// Torch's own options classes, and the order of their members, which ours of these names have as well: Options.
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

std::string number(double x) {
  if (x != x) return "std::numeric_limits<double>::quiet_NaN()";
  return jitstep::jit::to_string(x);
}

// The default as a C++ initializer.
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

// "a; b: c" with the parts that are there.
std::string remark(const Option& option) {
  std::string out;
  if (!option.is_flag()) out = to_string(option.constraint) + "; ";
  out += "default " + to_string(option.initial);
  if (!option.at_construction.empty())
    out += ", which becomes " + option.at_construction + " when a parameter group is made";
  if (!option.note.empty()) out += ". " + option.note;
  return out;
}

// Breaks words into `/// ` lines of at most 100 columns.
std::string comment(const std::string& words, const std::string& indent) {
  std::istringstream in(words);
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

// Everything one rule's classes are written from.
struct Rule {
  const Manifest& manifest;
  std::string name;  // of the class
  std::vector<const Option*> options;
  bool has_lr = false;
  bool of_matrices = false;  // it refuses everything else

  bool is_torchs() const { return torch_members().count(name) != 0; }
};

bool takes(const OptionValues& values, int dims) {
  try {
    values.validate_dims(dims);
    return true;
  } catch (const jitstep::jit::Error&) {
    return false;
  }
}

Rule rule_of(const Manifest& manifest, const Catalog& catalog) {
  const OptionValues values(manifest, catalog.gradient());
  Rule rule{manifest, class_of(manifest), {}};
  rule.of_matrices = takes(values, 2) && !takes(values, 1);
  for (const auto& option : values.names()) {
    rule.options.push_back(&values.declaration(option));
    rule.has_lr = rule.has_lr || option == "lr";
  }
  return rule;
}

void write_enumerations(std::ostream& out, const Rule& rule) {
  for (const Option* option : rule.options) {
    if (option->type != Option::Type::choice) continue;
    out << "  /// Values of " << option->name << ".\n  enum class " << option->enumeration << " { ";
    for (std::size_t i = 0; i < option->choices.size(); ++i)
      out << (i == 0 ? "" : ", ") << option->choices[i];
    out << " };\n";
  }
}

void write_accessors(std::ostream& out, const Option& option, std::size_t place,
                     const std::string& self) {
  const std::string type = type_of(option), member = option.name + "_";
  if (option.type == Option::Type::numbers)
    out << "  /// The type of " << option.name << ".\n  using " << option.name << "_t = " << type
        << ";\n";
  out << comment(remark(option), "  ");
  out << "  const " << type << "& " << option.name << "() const noexcept { return " << member
      << "; }\n";
  out << "  " << type << "& " << option.name << "() noexcept { return " << member << "; }\n";
  out << "  " << self << "& " << option.name << "(const " << type << "& value) {\n    " << member
      << " = value;\n    mark(" << place << ");\n    return *this;\n  }\n";
}

// Torch's first, in its order; the others in ours.
std::vector<const Option*> members_of(const Rule& rule) {
  std::vector<const Option*> members = rule.options;
  if (!rule.is_torchs()) return members;
  const auto& first = torch_members().at(rule.name);
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
      throw jitstep::jit::Error(text("the rule ", rule.manifest.name, " has no option ", first[i],
                                     " of torch's type, as torch::optim::", rule.name, "Options"));
  }
  return members;
}

void write_options_class(std::ostream& out, const Rule& rule) {
  const std::string self = rule.name + "Options";
  out << "/// Options of " << rule.name << ".\n";
  out << "struct JITSTEP_API " << self << " : TypedOptions<" << self << "> {\n";
  write_enumerations(out, rule);
  out << "\n  /// Everything at its default.\n  " << self << "();\n";
  if (rule.has_lr) out << "  " << self << "(double lr);\n";
  out << "\n";
  for (std::size_t i = 0; i < rule.options.size(); ++i)
    write_accessors(out, *rule.options[i], i, self);
  out << "\n  /// Every option and its member, for TypedOptions.\n  static auto fields();\n\n "
         "private:\n  const Common& common() const override;\n";
  if (!rule.is_torchs())
    out << "  const CastGuard* guard() const override { return &guard_; }\n\n"
           "  CastGuard guard_{CastGuard::Finds::nan};\n";
  else
    out << "\n  // As torch::optim::" << self << " has them, and then what that has not.\n";
  for (const Option* option : members_of(rule))
    out << "  " << type_of(*option) << " " << option->name << "_ = " << initializer(*option)
        << ";\n";
  out << "  Common common_ = {\"" << rule.manifest.name
      << "\"};\n};\nextern template class TypedOptions<" << self << ">;\n\n";
}

void write_state_class(std::ostream& out, const Rule& rule) {
  const std::string self = rule.name + "ParamState";
  out << "/// State of one parameter under " << rule.name << ".\n";
  out << "class JITSTEP_API " << self << " : public ParamState {\n public:\n";
  out << "  " << self << "() : ParamState(\"" << rule.manifest.name << "\") {}\n\n";
  out << "  /// Steps this parameter has taken.\n  using ParamState::step;\n  " << self
      << "& step(std::int64_t steps) {\n    step() = steps;\n    return *this;\n  }\n";
  for (std::size_t i = 0; i < rule.manifest.slots.size(); ++i) {
    const std::string name = rule.manifest.slots[i].torch_name;
    out << "  /// The slot " << rule.manifest.slots[i].name << "; see ParamState::value.\n";
    out << "  torch::Tensor " << name << "() const { return slot_value(" << i << "); }\n";
    out << "  " << self << "& " << name << "(const torch::Tensor& values) {\n    set_slot_value("
        << i << ", values);\n    return *this;\n  }\n";
  }
  out << "\n  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;\n};\n\n";
}

void write_optimizer_class(std::ostream& out, const Rule& rule) {
  const std::string options = rule.name + "Options";
  out << comment(rule.manifest.description, "");
  out << "class JITSTEP_API " << rule.name << " : public Optimizer {\n public:\n";
  out << "  /// Parameters, or groups of them with options of their own; wrong ones are a "
         "c10::Error.\n";
  out << "  explicit " << rule.name
      << "(const std::vector<torch::optim::OptimizerParamGroup>& groups, " << options
      << " defaults = {});\n";
  out << "  explicit " << rule.name << "(std::vector<torch::Tensor> params, " << options
      << " defaults = {});\n";
  if (rule.of_matrices)
    out << "  /// A whole module in the two groups of muon_groups: its hidden matrices, and "
           "everything else\n"
           "  /// by another rule.\n"
           "  explicit "
        << rule.name << "(const torch::nn::Module& module, const " << options
        << "& options = {},\n      const Options& others = AdamWOptions(), const MuonExclusions& "
           "exclusions = {});\n";
  out << "};\n\n";
}

void write_names(std::ostream& out, const Rule& rule) {
  for (const Option* option : rule.options) {
    if (option->type != Option::Type::choice) continue;
    out << "template <>\nstruct Names<" << rule.name << "Options::" << option->enumeration
        << "> {\n  static constexpr const char* names[] = {";
    for (std::size_t i = 0; i < option->choices.size(); ++i)
      out << (i == 0 ? "\"" : ", \"") << option->choices[i] << "\"";
    out << "};\n};\n";
  }
}

void write_option_definitions(std::ostream& out, const Rule& rule) {
  const std::string self = rule.name + "Options";
  out << self << "::" << self << "() = default;\n";
  out << "const Options::Common& " << self << "::common() const { return common_; }\n";
  if (rule.has_lr)
    out << self << "::" << self << "(double lr) : " << self << "() { this->lr(lr); }\n";
  out << "auto " << self << "::fields() {\n  return std::make_tuple(";
  for (const Option* option : rule.options)
    out << (option == rule.options.front() ? "\n      " : ",\n      ") << "OptionField{\""
        << option->name << "\", &" << self << "::" << option->name << "_}";
  out << ");\n}\ntemplate class TypedOptions<" << self << ">;\n";
}

void write_definitions(std::ostream& out, const Rule& rule) {
  const std::string self = rule.name, options = self + "Options", state = self + "ParamState";
  write_option_definitions(out, rule);
  out << "std::unique_ptr<torch::optim::OptimizerParamState> " << state << "::clone() const {\n"
      << "  return std::make_unique<" << state << ">(*this);\n}\n";
  out << self << "::" << self << "(const std::vector<torch::optim::OptimizerParamGroup>& groups, "
      << options << " defaults)\n    : Optimizer(groups, std::make_unique<" << options
      << ">(std::move(defaults))) {}\n";
  out << self << "::" << self << "(std::vector<torch::Tensor> params, " << options
      << " defaults)\n    : " << self
      << "({torch::optim::OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}\n";
  if (rule.of_matrices)
    out << self << "::" << self << "(const torch::nn::Module& module, const " << options
        << "& options,\n    const Options& others, const MuonExclusions& exclusions)\n"
           "    : Optimizer(muon_groups(module, options, others, exclusions)) {}\n";
  out << "\n";
}

void write_header(std::ostream& out, const std::vector<Rule>& rules) {
  out << R"(// Generated from the manifests of templates/rules. The classes of all shipped rules.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/optimizer.h"
#include "jitstep/options.h"
#include "jitstep/param_state.h"
#include "jitstep/parameter_groups.h"

namespace jitstep {

)";
  for (const Rule& rule : rules) {
    write_options_class(out, rule);
    write_state_class(out, rule);
    write_optimizer_class(out, rule);
  }
  out << "}  // namespace jitstep\n";
}

// A function that makes the class of a rule by the rule's name.
void write_makers(std::ostream& out, const std::vector<Rule>& rules, const std::string& base,
                  const std::string& function) {
  out << "std::unique_ptr<" << base << "> " << function << "(const std::string& rule) {\n";
  for (const Rule& rule : rules)
    out << "  if (rule == \"" << rule.manifest.name << "\") return std::make_unique<" << rule.name
        << base << ">();\n";
  out << "  return nullptr;\n}\n\n";
}

void write_source(std::ostream& out, const std::vector<Rule>& rules) {
  out << "// Generated from the manifests of templates/rules.\n#include \"jitstep/rules.h\"\n\n"
         "#include <utility>\n\n#include \"optim/options/typed_options.h\"\n\n"
         "namespace jitstep::fields {\n\n";
  for (const Rule& rule : rules) write_names(out, rule);
  out << "\n}  // namespace jitstep::fields\n\nnamespace jitstep {\n\n";
  for (const Rule& rule : rules) write_definitions(out, rule);
  write_makers(out, rules, "Options", "make_shipped_options");
  write_makers(out, rules, "ParamState", "make_shipped_state");
  out << "}  // namespace jitstep\n";
}

void generate(const std::filesystem::path& folder) {
  jitstep::jit::TemplateStore store;  // the shipped templates, whatever the environment says
  const Catalog catalog(store);
  std::vector<Rule> rules;
  for (const auto& name : catalog.names(Manifest::Kind::rule))
    rules.push_back(rule_of(catalog.rule(name), catalog));
  std::filesystem::create_directories(folder / "jitstep");
  std::ofstream header(folder / "jitstep" / "rules.h"), source(folder / "jitstep" / "rules.cpp");
  write_header(header, rules);
  write_source(source, rules);
  if (!header.flush() || !source.flush())
    throw jitstep::jit::Error("cannot write to " + folder.string());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: generate_classes <folder>\n";
    return 2;
  }
  try {
    generate(arguments[1]);
  } catch (const std::exception& error) {
    std::cerr << "generate_classes: " << error.what() << "\n";
    return 1;
  }
}
