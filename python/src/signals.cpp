#include "signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "jit/base/interrupt.h"

namespace jitstep::python {
namespace {

namespace nb = nanobind;

// Only the main thread uses it.
std::optional<nb::python_error>& raised() {
  static auto& error = *new std::optional<nb::python_error>();  // not destroyed after the interpreter
  return error;
}

// glibc has gettid() from 2.30 on, and wheels are for 2.28.
bool is_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

bool handler_raises() {
  if (!is_main_thread() || Py_IsInitialized() == 0) return false;
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() == 0) return false;
  raised().emplace();
  return true;
}

}  // namespace

void run_signal_handlers_in_waits() { jit::set_interrupt_check(handler_raises); }

void raise_exception_of_handler() {
  if (raised())
    raised()->restore();
  else
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  raised().reset();
}

}  // namespace jitstep::python
