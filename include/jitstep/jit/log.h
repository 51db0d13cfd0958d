// Where messages of the library go: warnings to a settable handler, notes to stderr.
#pragma once

#include <functional>
#include <string>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// How much is said: `warn` is the default.
enum class LogLevel { off, warn, info, debug };

/// Receives one warning, a full sentence without a line end.
using WarningHandler = std::function<void(const std::string&)>;

/// Replaces the handler of warnings (default: a line on stderr) and returns the one before.
/// An empty handler restores the default. Thread safe; the handler may be called by any thread.
JITSTEP_API WarningHandler set_warning_handler(WarningHandler handler);

/// Sends a warning to the handler, unless `level` is off.
JITSTEP_API void warn(LogLevel level, const std::string& message);

/// Writes a note to stderr if `wanted` is within `level`.
JITSTEP_API void note(LogLevel level, LogLevel wanted, const std::string& message);

}  // namespace jitstep::jit
