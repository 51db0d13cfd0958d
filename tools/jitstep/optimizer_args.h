// The flags that name an optimizer: rule, options, formats, dtypes.
#pragma once

#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace jitstep::tool {

/// The values of the flags, not validated.
struct OptimizerArgs {
  std::string rule, weights, parameter, gradient;  // empty: not given
  std::vector<std::string> state, options;
};

/// Declares --rule and --set; --state; --weights, --param and --grad.
void add_rule_args(CLI::App& command, OptimizerArgs& args);
CLI::Option* add_state_args(CLI::App& command, OptimizerArgs& args);
void add_parameter_args(CLI::App& command, OptimizerArgs& args);
/// Declares all of them.
void add_optimizer_args(CLI::App& command, OptimizerArgs& args);

// Each of these functions throws a UsageError for a mistake in a flag, and another Error if a file cannot be loaded.

/// The name of the rule. Loads the file if the value is a path.
std::string rule_name(const std::string& name_or_path);

/// The values of --set.
jit::NamedValues named_options(const OptimizerArgs& args);

/// The values of --state and --weights.
jit::Formats formats_of(const OptimizerArgs& args);

/// The dtype of parameters without --param: float32 if the weight format supports it, else its first dtype.
jit::Dtype default_dtype(const jit::Formats& formats, const jit::Manifest& rule);

/// The value of --param, else the default.
jit::Dtype parameter_dtype(const OptimizerArgs& args, const jit::Formats& formats,
                           const jit::Manifest& rule);

/// All options of the rule, validated.
jit::OptionValues option_values(const OptimizerArgs& args);

}  // namespace jitstep::tool
