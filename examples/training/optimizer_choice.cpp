#include "optimizer_choice.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace training {
namespace {

const std::vector<std::string> kDefaultNames = {"torch-adamw", "adamw", "adamw-int8", "adamw-int4",
                                                "lamb"};

OptimizerChoice choose_named(const std::string& name, const Flags& flags) {
  if (name == "torch-adamw") {
    return {name, OptimizerKind::kTorchAdamW, "fp32", flags.lr.value_or(kAdamWLr), ""};
  }
  const std::size_t dash = name.find('-');
  const std::string rule = name.substr(0, dash);
  const std::string state = dash == std::string::npos ? flags.state : name.substr(dash + 1);
  const std::string label = state == "fp32" ? rule : rule + "-" + state;
  if (rule == "adamw") {
    return {label, OptimizerKind::kAdamW, state, flags.lr.value_or(kAdamWLr), ""};
  }
  if (rule == "lamb") {
    return {label, OptimizerKind::kLamb, state, flags.lr.value_or(kLambLr), ""};
  }
  throw std::invalid_argument("--optimizers: unknown optimizer '" + name +
                              "'. Use torch-adamw, adamw or lamb, the last two also with a state "
                              "format (adamw-int8). Use --spec for other optimizers.");
}

// Reads only the values that the table shows. The library validates the spec when it builds the optimizer.
OptimizerChoice choose_spec(const std::string& text) {
  const auto spec = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object() || !spec.contains("rule") || !spec["rule"].is_string()) {
    throw std::invalid_argument(
        "--spec: expected a JSON object such as {\"rule\": \"sgd\", "
        "\"options\": {\"lr\": 0.05}}, got: " +
        text);
  }
  std::string name = spec["rule"];
  if (spec.contains("state")) {
    name += "-" + (spec["state"].is_string() ? spec["state"].get<std::string>() : "mixed");
  }
  double lr = std::nan("");
  if (spec.contains("options") && spec["options"].is_object() && spec["options"].contains("lr") &&
      spec["options"]["lr"].is_number()) {
    lr = spec["options"]["lr"];
  }
  return {name, OptimizerKind::kSpec, "", lr, text};
}

bool same_setting(const OptimizerChoice& a, const OptimizerChoice& b) {
  return a.name == b.name && a.spec == b.spec;
}

// Two specs may have the same rule and state format. Later ones get a number.
std::string unique_name(const std::string& name, const std::vector<OptimizerChoice>& earlier) {
  const auto is_used = [&](const std::string& candidate) {
    return std::any_of(earlier.begin(), earlier.end(),
                       [&](const OptimizerChoice& other) { return other.name == candidate; });
  };
  std::string candidate = name;
  for (int i = 2; is_used(candidate); ++i) candidate = name + " " + std::to_string(i);
  return candidate;
}

void add(std::vector<OptimizerChoice>& choices, OptimizerChoice choice) {
  const bool known = std::any_of(choices.begin(), choices.end(), [&](const OptimizerChoice& other) {
    return same_setting(other, choice);
  });
  if (known) return;  // for example `adamw-int8`, and `adamw` with --state int8
  choice.name = unique_name(choice.name, choices);
  choices.push_back(std::move(choice));
}

}  // namespace

std::vector<OptimizerChoice> choose_optimizers(const Flags& flags) {
  const bool use_defaults = flags.optimizers.empty() && flags.specs.empty();
  std::vector<OptimizerChoice> choices;
  for (const std::string& name : use_defaults ? kDefaultNames : flags.optimizers) {
    add(choices, choose_named(name, flags));
  }
  for (const std::string& text : flags.specs) add(choices, choose_spec(text));
  return choices;
}

}  // namespace training
