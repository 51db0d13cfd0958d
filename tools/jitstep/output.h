// The end of a program. A failed write to standard output is a failure. Errors go to standard error.
#pragma once

#include <string>

namespace jitstep::tool {

/// Flushes standard output and returns the exit status. If the flush fails, prints an error and returns kFailure
/// instead of kSuccess. Any other `status` stays.
int status_of_output(int status);

/// Prints an error to standard error, as one line or as JSON. Returns `status`.
int report_error(const std::string& message, int status, bool as_json);

}  // namespace jitstep::tool
