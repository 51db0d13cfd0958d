// jitstep plan: what a model will need, before it is bought.
#include <jit/base/text.h>
#include <jit/codegen/spec_text.h>
#include <jitstep/jit/error.h>

#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "command.h"
#include "plan/memory_plan.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

constexpr const char* kFooter =
    "Counted are parameters, gradients and all that an optimizer keeps from step to step, as "
    "docs/catalogue.md\n"
    "counts: of matrices of 1024 x 1024. Activations are not.\n\n"
    "  jitstep plan --params 7B --rule adamw --state int4 --weights split16\n"
    "  jitstep plan --params 125M --rule sgd --option momentum=0.9 --state m=bf16";

struct Words {
  std::string parameters, rule, weights, parameter_dtype, gradient_dtype;
  std::vector<std::string> state, options;
  bool json = false;
};

// 7B, 1.5M, 431080.
std::int64_t parse_count(const std::string& word) {
  constexpr long double kMost = 281474976710656;  // 2^48, as of a tensor's elements
  constexpr std::string_view kUnits = "KkMmBbTt";
  long double count = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, failure] = std::from_chars(word.data(), end, count, std::chars_format::fixed);
  bool good = failure == std::errc() && end - rest <= 1;
  if (good && rest != end) {
    const std::size_t unit = kUnits.find(*rest);
    good = unit != kUnits.npos;
    count *= std::pow(1000.0L, static_cast<long double>(unit / 2 + 1));
  }
  const long double whole = std::round(count);
  if (!good || !(std::abs(count - whole) < 1e-3L) || whole < 1 || whole > kMost)
    throw Error(text("--params \"", word,
                     "\" is no number of parameters: give one from 1 to 2^48, where K, M, B and T "
                     "stand for thousands to trillions, as in 7B or 125M"));
  return static_cast<std::int64_t>(whole);
}

Error twice(const char* option, const std::string& what) {
  return Error(text(option, " is given twice for ", what, "; keep one"));
}

// NAME=VALUE, where a value is JSON or else a choice's name.
NamedValues parse_options(const std::string& rule, const std::vector<std::string>& words) {
  nlohmann::json options = nlohmann::json::object();
  for (const std::string& word : words) {
    const std::size_t sign = word.find('=');
    if (sign == word.npos)
      throw Error(text("--option \"", word, "\" has no value: give it as in momentum=0.9"));
    const std::string name = word.substr(0, sign), value = word.substr(sign + 1);
    if (options.contains(name)) throw twice("--option", name);
    auto parsed = nlohmann::json::parse(value, nullptr, false);
    options[name] = parsed.is_discarded() ? nlohmann::json(value) : parsed;
  }
  const nlohmann::json spec = {{"rule", rule}, {"options", options}};
  return parse_spec(spec.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).options;
}

// CODEC of all slots, SLOT=CODEC of one.
Formats parse_formats(const Words& words) {
  Formats formats;
  for (const std::string& word : words.state) {
    const std::size_t sign = word.substr(0, word.find('{')).find('=');
    const std::string slot = sign == word.npos ? "" : word.substr(0, sign);
    const CodecChoice codec = parse_codec(sign == word.npos ? word : word.substr(sign + 1));
    const bool first = sign == word.npos ? !std::exchange(formats.state, codec).has_value()
                                         : formats.slots.emplace(slot, codec).second;
    if (!first) throw twice("--state", sign == word.npos ? "all slots" : slot);
  }
  if (!words.weights.empty()) formats.weights = words.weights;
  return formats;
}

plan::Request request_of(const Words& words) {
  plan::Request request{.parameters = parse_count(words.parameters),
                        .rule = words.rule,
                        .options = parse_options(words.rule, words.options),
                        .formats = parse_formats(words)};
  if (!words.parameter_dtype.empty()) request.parameter = parse_dtype(words.parameter_dtype);
  if (!words.gradient_dtype.empty()) request.gradient = parse_dtype(words.gradient_dtype);
  return request;
}

void add_options(CLI::App& command, Words& words) {
  command.add_option("--params", words.parameters, "How many parameters: 431080, 125M, 7B, 1.5T")
      ->required();
  command.add_option("--rule", words.rule, "The optimizer")->default_val("adamw");
  command.add_option("--option", words.options, "NAME=VALUE, an option of the rule");
  command.add_option("--state", words.state,
                     "CODEC of all slots, or SLOT=CODEC of one; as a name or as "
                     "{\"codec\": \"int8\", \"block\": 64}");
  command.add_option("--weights", words.weights, "The weight format");
  command.add_option("--param-dtype", words.parameter_dtype,
                     "The parameters' dtype; float32, or what the weight format is for");
  command.add_option("--grad-dtype", words.gradient_dtype, "The gradients', if it is another");
  command.add_flag("--json", words.json, "Prints one object instead of a table");
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
  CLI::App* const command = app.add_subcommand(
      "plan", "Says what parameters, gradients and the optimizer's state will take in memory");
  command->footer(kFooter);
  const auto words = std::make_shared<Words>();
  add_options(*command, *words);
  command->callback([words, &status] {
    const plan::MemoryPlan made = plan::memory_plan(request_of(*words));
    std::cout << (words->json ? to_json(made) : to_text(made));
    status = 0;
  });
}

}  // namespace jitstep::tool
