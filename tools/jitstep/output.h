// How programs end: output that cannot be written is a failure, and errors go to standard error.
#pragma once

#include <string>

namespace jitstep::tool {

/// The exit status after all output. It is kFailure in place of kSuccess if standard output cannot be written completely;
/// then it prints an error.
int status_of_output(int status);

/// Prints an error to standard error, as a line or as JSON. Returns `status`.
int report_error(const std::string& message, int status, bool as_json);

}  // namespace jitstep::tool
