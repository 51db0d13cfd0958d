#include "optimizer_words.h"

#include <jit/base/text.h>
#include <jit/codegen/spec_text.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "template_file.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

Error twice(const char* option, const std::string& what) {
  return Error(text(option, " is given twice for ", what, "; keep one"));
}

CodecChoice codec_of(const std::string& word) {
  const bool named = word.find('{') == word.npos;
  return named && is_file(word) ? CodecChoice{default_catalog().load_codec(word).name}
                                : parse_codec(word);
}

}  // namespace

CLI::Option* add_state_words(CLI::App& command, OptimizerWords& words) {
  return command.add_option("--state", words.state,
                            "CODEC of all slots, or SLOT=CODEC of one; as a name, a file or as "
                            "{\"codec\": \"int8\", \"block\": 64}");
}

void add_rule_words(CLI::App& command, OptimizerWords& words) {
  command.add_option("--rule", words.rule, "The optimizer: a name, or the file of one of yours")
      ->default_val("adamw");
  command.add_option("--set,--option", words.options, "NAME=VALUE, an option of the rule");
}

void add_parameter_words(CLI::App& command, OptimizerWords& words) {
  command.add_option("--weights", words.weights, "The weight format");
  command.add_option("--param,--param-dtype", words.parameter,
                     "The parameters' dtype; float32, or what the weight format is for");
  command.add_option("--grad,--grad-dtype", words.gradient, "The gradients', if it is another");
}

void add_optimizer_words(CLI::App& command, OptimizerWords& words) {
  add_rule_words(command, words);
  add_state_words(command, words);
  add_parameter_words(command, words);
}

std::string rule_name(const std::string& word) {
  return is_file(word) ? default_catalog().load_rule(word).name : word;
}

// A value is JSON or else a choice's name.
NamedValues named_options(const OptimizerWords& words) {
  nlohmann::json options = nlohmann::json::object();
  for (const std::string& word : words.options) {
    const std::size_t sign = word.find('=');
    if (sign == word.npos)
      throw Error(text("--set \"", word, "\" has no value: give it as in momentum=0.9"));
    const std::string name = word.substr(0, sign), value = word.substr(sign + 1);
    if (options.contains(name)) throw twice("--set", name);
    auto parsed = nlohmann::json::parse(value, nullptr, false);
    options[name] = parsed.is_discarded() ? nlohmann::json(value) : parsed;
  }
  const nlohmann::json spec = {{"rule", rule_name(words.rule)}, {"options", options}};
  return parse_spec(spec.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).options;
}

// CODEC of all slots, SLOT=CODEC of one.
Formats formats_of(const OptimizerWords& words) {
  Formats formats;
  for (const std::string& word : words.state) {
    const std::size_t sign = word.substr(0, word.find('{')).find('=');
    const std::string slot = sign == word.npos ? "" : word.substr(0, sign);
    const CodecChoice codec = codec_of(sign == word.npos ? word : word.substr(sign + 1));
    const bool first = sign == word.npos ? !std::exchange(formats.state, codec).has_value()
                                         : formats.slots.emplace(slot, codec).second;
    if (!first) throw twice("--state", sign == word.npos ? "all slots" : slot);
  }
  if (!words.weights.empty()) formats.weights = words.weights;
  return formats;
}

Dtype usual_dtype(const Formats& formats, const Manifest& rule) {
  const std::string& own = rule.default_weights;
  const std::string weights = formats.weights.value_or(own.empty() ? "native" : own);
  const auto& dtypes = default_catalog().weights(weights).dtypes;
  const auto found = std::find(dtypes.begin(), dtypes.end(), Dtype::float32);
  return found == dtypes.end() ? dtypes.front() : *found;
}

OptionValues option_values(const OptimizerWords& words) {
  OptionValues values(rule_name(words.rule));
  for (const auto& [name, value] : named_options(words)) values.set(name, value);
  values.validate();
  return values;
}

}  // namespace jitstep::tool
