// The engines that compile and run a file's kernels.
#pragma once

#include <jitstep/jit/catalog.h>
#include <jitstep/jit/engine.h>

#include <string>
#include <vector>

namespace jitstep::tool::check {

/// A separate engine with its catalog. It has the settings of the environment except `check`: whether kernels poison
/// unset values, as with JITSTEP_CHECK=1.
struct Workbench {
  explicit Workbench(bool check);

  jit::Engine engine;
  jit::Catalog catalog;
};

/// Two engines with the same files, one for normal kernels and one for kernels that poison unset values.
struct Workbenches {
  Workbench plain{false}, poisoned{true};

  /// Loads a file into both engines. Its namespace tells whether it is a rule or a codec. Throws an Error with file and
  /// line if it is neither or cannot be read. The manifest belongs to `plain`.
  const jit::Manifest& load(const std::string& path);
};

/// Why kernels for a target cannot be compiled on this machine. Empty if they can.
std::string compiler_problem(const jit::Target& target);

}  // namespace jitstep::tool::check
