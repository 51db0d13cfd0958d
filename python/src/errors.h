// jitstep's errors as exceptions of Python.
#pragma once

#include <nanobind/nanobind.h>

namespace jitstep::python {

/// Adds the exceptions to the module, and translates the errors of jitstep::jit: arguments to ValueError, the rest to
/// subclasses of jitstep.Error, which is a RuntimeError.
void add_errors(nanobind::module_& module);

}  // namespace jitstep::python
