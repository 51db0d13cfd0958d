// Signal handlers of Python run while this thread waits for a compiler, so that Ctrl-C ends the wait.
#pragma once

#include <nanobind/nanobind.h>

namespace jitstep::python {

/// From now on, the main thread of Python runs signal handlers also while it waits for a compiler. A handler that
/// raises an exception ends the wait. No other thread may hold the GIL while it waits for a compiler.
void run_signal_handlers_in_waits();

/// Raises the exception of the handler that ended a wait. Needs the GIL.
void raise_exception_of_handler();

}  // namespace jitstep::python
