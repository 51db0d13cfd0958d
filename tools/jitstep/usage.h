// Exit statuses and usage errors.
#pragma once

#include <jitstep/jit/error.h>

namespace jitstep::tool {

/// Exit statuses of every command.
enum Status : int { kSuccess = 0, kFailure = 1, kUsage = 2, kIncomplete = 3, kInterrupted = 130 };

/// A mistake in the command line. The tool prints it and exits with kUsage.
struct UsageError : jit::Error {
  using jit::Error::Error;
};

/// Calls `f`, which reads arguments. Rethrows its Error as a UsageError.
template <class F>
decltype(auto) as_usage(const F& f) {
  try {
    return f();
  } catch (const UsageError&) {
    throw;
  } catch (const jit::Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace jitstep::tool
