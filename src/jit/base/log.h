// Sends warnings to the handler of the program, and prints notes.
#pragma once

#include <string>

#include "jitstep/jit/error.h"

namespace jitstep::jit {

/// Sends a warning to the handler, unless `level` is off.
JITSTEP_API void warn(LogLevel level, const std::string& message);

/// The same, unless this process has sent the same message by this function before.
void warn_once(LogLevel level, const std::string& message);

/// Prints a note to stderr if `level` includes `wanted`.
JITSTEP_API void note(LogLevel level, LogLevel wanted, const std::string& message);

}  // namespace jitstep::jit
