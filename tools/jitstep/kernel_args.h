// The flags that name one kernel: an optimizer, its tensors, a target and a config.
#pragma once

#include <string>
#include <vector>

#include "spec_plan.h"

namespace CLI {
class App;
}

namespace jitstep::tool {

/// The values of the flags, not validated.
struct KernelArgs {
  std::string spec;         // JSON; if empty, `optimizer` names the optimizer
  OptimizerArgs optimizer;  // with a spec, only its dtypes are used
  std::string target = "sm_90";
  int dims = 2;                          // of the parameters
  bool strided = false;                  // some parameters or gradients are not dense
  bool scaled = false;                   // a GradScaler scales the gradients
  std::vector<std::string> config;       // "vector_elems=8", or four numbers
  std::string config_flag = "--config";  // the flag that errors about the config name
  std::string override_file;             // edited, preprocessed source
};

/// Declares the flags.
void add_kernel_args(CLI::App& command, KernelArgs& args);

/// The optimizer of the spec or of the flags, validated. Throws a UsageError.
RequestedOptimizer optimizer_of(const KernelArgs& args);

}  // namespace jitstep::tool
