// A kernel as the command line names it: rule, options, formats, dtypes.
#pragma once

#include <jitstep/jit/formats.h>
#include <jitstep/jit/option_values.h>

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace jitstep::tool {

/// The words of a command line, as they were given.
struct OptimizerWords {
  std::string rule, weights, parameter, gradient;  // empty: not given
  std::vector<std::string> state, options;
};

/// Declares --rule and --set; --state; --weights, --param and --grad.
void add_rule_words(CLI::App& command, OptimizerWords& words);
CLI::Option* add_state_words(CLI::App& command, OptimizerWords& words);
void add_parameter_words(CLI::App& command, OptimizerWords& words);
/// Declares all of them.
void add_optimizer_words(CLI::App& command, OptimizerWords& words);

/// A name, or the file of a rule or codec of the user's, which is loaded and gives its name. An Error if the file
/// cannot be read.
std::string rule_name(const std::string& word);

/// What --set says. An Error for what has no value or is given twice.
jit::NamedValues named_options(const OptimizerWords& words);

/// What --state and --weights say. An Error for what is given twice.
jit::Formats formats_of(const OptimizerWords& words);

/// The dtype of the parameters where nobody says it: float32 if the weight format is for that, else the first one
/// that it is for.
jit::Dtype usual_dtype(const jit::Formats& formats, const jit::Manifest& rule);

/// The rule's options, all of them checked.
jit::OptionValues option_values(const OptimizerWords& words);

}  // namespace jitstep::tool
