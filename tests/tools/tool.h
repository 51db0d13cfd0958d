// Runs the command-line tool as users do.
#pragma once

#include <string>
#include <vector>

#include "jit/base/process.h"

namespace jitstep::jit::testing {

/// For tests of what the compiler makes of a kernel: without a JITSTEP_CXX that adds sanitizers or other options.
inline const Variables kPlainCompiler = {{"JITSTEP_CXX", ""}};

/// Runs `jitstep ARGS` in this process's environment with these changes. The kernel cache is that of all tests, unless
/// `changes` name another one.
inline Finished run_tool(std::vector<std::string> args, const Variables& changes = {}) {
  args.insert(args.begin(), JITSTEP_TOOL);
  return run_program(args, "", own_variables(changes));
}

}  // namespace jitstep::jit::testing
