#include "optimizer_args.h"

#include <jit/base/text.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>
#include "jit/codegen/spec_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "in_range.h"
#include "template_file.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

UsageError twice(const char* option, const std::string& what) {
  return UsageError(str_cat(option, " is given twice for ", what, ". Remove one."));
}

}  // namespace

void add_rule_args(CLI::App& command, OptimizerArgs& args) {
  command.add_option("--rule", args.rule, "Optimizer: a name, or your own file")
      ->type_name("RULE")
      ->default_val("adamw");
  command
      .add_option("--set,--option", args.options,
                  "Option of the optimizer: lr=0.01, betas=[0.9,0.99]")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

CLI::Option* add_state_args(CLI::App& command, OptimizerArgs& args) {
  return command
      .add_option("--state", args.state,
                  "State format: CODEC for all slots, SLOT=CODEC for one; CODEC is a name, a file "
                  "or JSON as in {\"codec\": \"int8\", \"block\": 64}")
      ->type_name("FORMAT")
      ->allow_extra_args(false);
}

void add_parameter_args(CLI::App& command, OptimizerArgs& args) {
  command.add_option("--weights", args.weights, "Weight format")
      ->type_name("FORMAT")
      ->check(not_empty());
  command
      .add_option("--param,--param-dtype", args.parameter,
                  "Dtype of the parameters (default: float32, or what the weight format is for)")
      ->type_name("DTYPE")
      ->check(not_empty());
  command
      .add_option("--grad,--grad-dtype", args.gradient,
                  "Dtype of the gradients (default: as the parameters)")
      ->type_name("DTYPE")
      ->check(not_empty());
}

void add_optimizer_args(CLI::App& command, OptimizerArgs& args) {
  add_rule_args(command, args);
  add_state_args(command, args);
  add_parameter_args(command, args);
}

std::string rule_name(const std::string& name_or_path) {
  return is_path(name_or_path) ? default_catalog().load_rule(name_or_path).name : name_or_path;
}

// A value that is not JSON is the name of a choice.
NamedValues named_options(const OptimizerArgs& args) {
  nlohmann::json options = nlohmann::json::object();
  for (const std::string& option : args.options) {
    const std::size_t sign = option.find('=');
    if (sign == option.npos)
      throw UsageError(
          str_cat("--set \"", option, "\" has no value. Give one, as in momentum=0.9."));
    const std::string name = option.substr(0, sign), value = option.substr(sign + 1);
    if (options.contains(name)) throw twice("--set", name);
    auto parsed = nlohmann::json::parse(value, nullptr, false);
    options[name] = parsed.is_discarded() ? nlohmann::json(value) : parsed;
  }
  const nlohmann::json spec = {{"rule", rule_name(args.rule)}, {"options", options}};
  return as_usage([&] {
    return parse_spec(spec.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).options;
  });
}

// CODEC is for all slots, SLOT=CODEC for one.
Formats formats_of(const OptimizerArgs& args) {
  Formats formats;
  for (const std::string& state : args.state) {
    const std::size_t sign = state.substr(0, state.find('{')).find('=');
    const std::string slot = sign == state.npos ? "" : state.substr(0, sign);
    const CodecChoice codec = codec_choice(sign == state.npos ? state : state.substr(sign + 1));
    const bool first = sign == state.npos ? !std::exchange(formats.state, codec).has_value()
                                          : formats.slots.emplace(slot, codec).second;
    if (!first) throw twice("--state", sign == state.npos ? "all slots" : slot);
  }
  if (!args.weights.empty()) formats.weights = args.weights;
  return formats;
}

Dtype default_dtype(const Formats& formats, const Manifest& rule) {
  const std::string& own = rule.default_weights;
  const std::string weights = formats.weights.value_or(own.empty() ? "native" : own);
  const auto& dtypes =
      as_usage([&]() -> const Manifest& { return default_catalog().weights(weights); }).dtypes;
  const auto found = std::find(dtypes.begin(), dtypes.end(), Dtype::float32);
  return found == dtypes.end() ? dtypes.front() : *found;
}

Dtype parameter_dtype(const OptimizerArgs& args, const Formats& formats, const Manifest& rule) {
  if (args.parameter.empty()) return default_dtype(formats, rule);
  return as_usage([&] { return parse_dtype(args.parameter); });
}

OptionValues option_values(const OptimizerArgs& args) {
  const NamedValues options = named_options(args);
  return as_usage([&] {
    OptionValues values(rule_name(args.rule));
    for (const auto& [name, value] : options) values.set(name, value);
    values.validate();
    return values;
  });
}

}  // namespace jitstep::tool
