// Messages of the library: warnings go to a handler that programs can set, notes go to stderr.
#pragma once

#include <functional>
#include <string>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Log level. Default: `warn`.
enum class LogLevel { off, warn, info, debug };

/// Receives one warning: a full sentence without a line break.
using WarningHandler = std::function<void(const std::string&)>;

/// Sets the handler of warnings and returns the previous one. The default handler prints a line to stderr. An empty
/// handler restores the default. Thread safe. Any thread may call the handler.
JITSTEP_API WarningHandler set_warning_handler(WarningHandler handler);

/// Sends a warning to the handler, unless `level` is off.
JITSTEP_API void warn(LogLevel level, const std::string& message);

/// Prints a note to stderr if `level` includes `wanted`.
JITSTEP_API void note(LogLevel level, LogLevel wanted, const std::string& message);

}  // namespace jitstep::jit
