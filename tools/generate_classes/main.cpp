// Writes the typed classes of all shipped rules from their manifests:
//   generate_classes <folder>   ->   <folder>/jitstep/rules.h and <folder>/jitstep/rules.cpp
// Options with torch-style setters, parameter state with torch's names, the optimizers.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "jitstep/jit/error.h"
#include "rule.h"

namespace {

using jitstep::jit::Catalog;
using jitstep::jit::Manifest;
using jitstep::jit::Option;
using namespace jitstep::generated;

void write_enumerations(std::ostream& out, const Rule& rule) {
  std::set<std::string> written;  // several options may share one
  for (const Option* option : rule.options) {
    if (option->type != Option::Type::choice || !written.insert(option->enumeration).second)
      continue;
    out << "  /// Values of " << option->name << ".\n  enum class " << option->enumeration << " { ";
    for (std::size_t i = 0; i < option->choices.size(); ++i)
      out << (i == 0 ? "" : ", ") << option->choices[i];
    out << " };\n";
  }
}

void write_accessors(std::ostream& out, const Option& option, std::size_t index,
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
      << " = value;\n    mark(" << index << ");\n    return *this;\n  }\n";
}

void write_options_class(std::ostream& out, const Rule& rule) {
  const std::string self = rule.name + "Options";
  out << "/// Options of " << rule.name << ".\n";
  out << "struct JITSTEP_API " << self << " : TypedOptions<" << self << "> {\n";
  write_enumerations(out, rule);
  out << "\n  /// All options at their defaults.\n  " << self << "();\n";
  if (rule.has_lr) out << "  " << self << "(double lr);\n";
  out << "\n";
  for (std::size_t i = 0; i < rule.options.size(); ++i)
    write_accessors(out, *rule.options[i], i, self);
  if (rule.has_lr)
    out << "\n  double get_lr() const override;\n  void set_lr(double lr) override;\n";
  out << "\n private:\n  friend class TypedOptions<" << self
      << ">;\n  static auto fields();\n  const char* layout() const override;\n"
         "  const Common& common() const override;\n";
  if (!rule.is_torchs())
    out << "  const CastGuard* guard() const override { return &guard_; }\n\n"
           "  CastGuard guard_{CastGuard::Finds::nan};\n";
  else
    out << "\n  // First the members of torch::optim::" << self
        << " in their order, then jitstep's additional ones.\n";
  for (const Option* option : rule.members())
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
  out << "  /// Parameters, or groups with their own options. Throws a c10::Error for invalid "
         "ones.\n";
  out << "  explicit " << rule.name
      << "(const std::vector<torch::optim::OptimizerParamGroup>& groups, " << options
      << " defaults = {});\n";
  out << "  explicit " << rule.name << "(std::vector<torch::Tensor> params, " << options
      << " defaults = {});\n";
  if (rule.of_matrices)
    out << "  /// The parameters of a module in the two groups of muon_groups: this optimizer for "
           "hidden matrices,\n"
           "  /// the optimizer of `others` for all other parameters.\n"
           "  explicit "
        << rule.name << "(const torch::nn::Module& module, const " << options
        << "& options = {},\n      const Options& others = AdamWOptions(), const MuonExclusions& "
           "exclusions = {});\n";
  out << "};\n\n";
}

void write_option_definitions(std::ostream& out, const Rule& rule) {
  const std::string self = rule.name + "Options";
  out << self << "::" << self << "() = default;\n";
  out << "const Options::Common& " << self << "::common() const { return common_; }\n";
  if (rule.has_lr)
    out << self << "::" << self << "(double lr) : " << self << "() { this->lr(lr); }\n"
        << "double " << self << "::get_lr() const {\n  check_intact();\n  return lr_;\n}\n"
        << "void " << self << "::set_lr(double lr) {\n  check_intact();\n  this->lr(lr);\n}\n";
  out << "static constexpr const char* kLayoutOf" << rule.name << " =";
  std::istringstream text(rule.layout.text());
  for (std::string line; std::getline(text, line);) out << "\n    \"" << line << "\\n\"";
  out << ";\nconst char* " << self << "::layout() const { return kLayoutOf" << rule.name
      << "; }\nauto " << self << "::fields() {\n  return std::make_tuple(";
  const char* separator = "";
  for (const jitstep::jit::PackedOption& one : rule.layout.options) {
    out << separator << "\n      OptionField{" << one.index << ", &" << self
        << "::" << one.option->name << "_}";
    separator = ",";
  }
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
  }
  // Last, because the default arguments of some need the options of another.
  for (const Rule& rule : rules) write_optimizer_class(out, rule);
  out << "}  // namespace jitstep\n";
}

// Writes a function that finds a rule's classes by the rule's name.
void write_finder(std::ostream& out, const std::vector<Rule>& rules) {
  out << "const ShippedRule* find_shipped(const std::string& rule) {\n"
         "  static const auto& all = *new std::unordered_map<std::string, ShippedRule>{\n";
  for (const Rule& rule : rules)
    out << "      {\"" << rule.manifest.name << "\", shipped_classes<" << rule.name << "Options, "
        << rule.name << "ParamState>(kLayoutOf" << rule.name << ")},\n";
  out << "  };\n  const auto found = all.find(rule);\n"
         "  return found == all.end() ? nullptr : &found->second;\n}\n\n";
}

void write_source(std::ostream& out, const std::vector<Rule>& rules) {
  out << "// Generated from the manifests of templates/rules.\n#include \"jitstep/rules.h\"\n\n"
         "#include <unordered_map>\n#include <utility>\n\n"
         "#include \"optim/options/shipped_rules.h\"\n#include "
         "\"optim/options/typed_options.h\"\n\n"
         "namespace jitstep {\n\n";
  for (const Rule& rule : rules) write_definitions(out, rule);
  write_finder(out, rules);
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
    throw jitstep::jit::Error("cannot write to " + folder.string() +
                              ". Check its permissions and the space on its disk.");
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
  return 0;
}
