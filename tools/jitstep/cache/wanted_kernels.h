// The kernels that `jitstep cache warm` compiles: those of optimizers, and those that a program has written.
#pragma once

#include <jitstep/jit/target.h>

#include <string>
#include <vector>

#include "../optimizer_args.h"

namespace jitstep::tool::cache {

/// The values of the command line.
struct WarmRequest {
  std::vector<std::string> specs, targets = {"cpu"}, cpus;
  std::string file, kernels;
  OptimizerArgs optimizer;   // an optimizer by flags, and the default dtypes of specs
  bool by_args = false;      // whether flags name an optimizer
  bool has_targets = false;  // whether --target is given
};

/// A kernel to compile.
struct WantedKernel {
  std::string name, text;
  jit::Target target;
  std::string config = {};  // empty for a kernel from --kernels
  bool tuned = false;       // the config comes from a tuning record
  std::string cpu = {};     // as Settings::cpu
};

/// Each kernel once per target, and kernels for the CPU once per requested processor. Throws an Error for a file that
/// cannot be read, and for an optimizer without kernels.
std::vector<WantedKernel> wanted_kernels(const WarmRequest& request);

}  // namespace jitstep::tool::cache
