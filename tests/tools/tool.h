// Runs the tool as users do.
#pragma once

#include <string>
#include <vector>

#include "jit/base/process.h"

namespace jitstep::jit::testing {

/// `jitstep WORDS` in this process's environment with these changes. Kernels are kept with those of all tests, unless
/// they say otherwise.
inline Finished run_tool(std::vector<std::string> words, const Variables& changes = {}) {
  words.insert(words.begin(), JITSTEP_TOOL);
  return run_program(words, "", own_variables(changes));
}

}  // namespace jitstep::jit::testing
