// The optimizer and kernel that a command line names, by a JSON spec or by flags.
#pragma once

#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <limits>
#include <string>

#include "optimizer_args.h"

namespace jitstep::tool {

/// A validated optimizer, and the dtypes of its tensors.
struct RequestedOptimizer {
  jit::OptionValues options;
  jit::Formats formats;
  std::string parameter = {}, gradient = {};  // empty: default_dtype(), and the parameters' dtype
};

/// The optimizer of a spec, as Optimizer::from_spec() reads it. Names of rules and codecs may also be paths.
RequestedOptimizer optimizer_of_spec(const std::string& spec);

/// The optimizer that the flags name.
RequestedOptimizer optimizer_of_args(const OptimizerArgs& args);

/// The plan for parameters with this many dimensions and elements. By default they are large enough for every format.
jit::Plan plan_of(const RequestedOptimizer& requested, int dims = 2,
                  std::int64_t elements = std::numeric_limits<std::int64_t>::max());

/// Declares the flags of an optimizer. Those that name a kernel exclude the argument `spec`; --param and --grad do not.
void add_spec_args(CLI::App& command, CLI::Option& spec, OptimizerArgs& args);

/// Whether a flag that excludes the spec is given.
bool has_spec_args(const CLI::App& command);

}  // namespace jitstep::tool
