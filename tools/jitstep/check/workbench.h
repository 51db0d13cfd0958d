// The engines that a file is tried in, and what the file is.
#pragma once

#include <jitstep/jit/catalog.h>
#include <jitstep/jit/engine.h>

#include <string>
#include <vector>

namespace jitstep::tool::check {

/// An engine of its own with the templates it knows. The environment's settings, but for `check`:
/// whether kernels are poisoned, as under JITSTEP_CHECK=1.
struct Workbench {
  explicit Workbench(bool check);

  jit::Engine engine;
  jit::Catalog catalog;
};

/// Kernels as they ship, and poisoned ones; both know the same files.
struct Workbenches {
  Workbench plain{false}, poisoned{true};

  /// Adds a file that declares a rule or a codec, as its namespace says. An Error with file and line if
  /// it is neither, or cannot be read. The manifest belongs to `plain`.
  const jit::Manifest& load(const std::string& path);
};

/// Why kernels for a target cannot be compiled here; empty if they can.
std::string compiler_problem(const jit::Target& target);

}  // namespace jitstep::tool::check
