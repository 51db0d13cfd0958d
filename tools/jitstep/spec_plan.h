// The kernel that a command line names: a spec in JSON, or the words that other subcommands take.
#pragma once

#include <jitstep/jit/formats.h>
#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <limits>
#include <string>

#include "optimizer_words.h"

namespace jitstep::tool {

/// An optimizer, all of it checked, and the dtypes of what it steps.
struct AskedOptimizer {
  jit::OptionValues options;
  jit::Formats formats;
  std::string parameter = {}, gradient = {};  // empty: as usual_dtype says, and as the parameter's
};

/// Of a spec as Optimizer::from_spec takes it, where the file of a rule or codec may stand for its name.
AskedOptimizer optimizer_of_spec(const std::string& spec);

/// For parameters with this many dimensions and elements: by default large enough for every format.
jit::Plan plan_of(const AskedOptimizer& asked, int dims = 2,
                  std::int64_t elements = std::numeric_limits<std::int64_t>::max());

/// Declares --rule, --set, --state and --weights, which name a kernel in the place of the option `spec`, and --param
/// and --grad, which go with both.
void add_spec_words(CLI::App& command, CLI::Option& spec, OptimizerWords& words);

/// Whether the command line has one of the first four.
bool has_spec_words(const CLI::App& command);

/// The optimizer that those words name.
AskedOptimizer optimizer_of_words(const OptimizerWords& words);

}  // namespace jitstep::tool
