// One kernel as flags name it: an optimizer, its tensors, a target, a config.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "spec_plan.h"

namespace jitstep::tool {

/// The values of the flags, as they were given.
struct KernelArgs {
  std::string spec;         // JSON; empty: the optimizer's flags
  OptimizerArgs optimizer;  // of a spec, the dtypes only
  std::string target = "sm_90";
  int dims = 2;                          // of the parameters
  bool strided = false;                  // some parameters or gradients are not dense
  bool scaled = false;                   // a GradScaler scales the gradients
  std::vector<std::string> config;       // "vector=8", or four numbers
  std::string config_flag = "--config";  // for errors: where the config was given
  std::string override_file;             // edited, preprocessed source
};

/// Declares the flags.
void add_kernel_args(CLI::App& command, KernelArgs& args);

/// The optimizer of the spec or of the flags, validated. A UsageError says what is wrong.
RequestedOptimizer optimizer_of(const KernelArgs& args);

}  // namespace jitstep::tool
