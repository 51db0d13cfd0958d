// Refuses tensors that share memory, which a step would write to at once.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "jit/step/shared_memory.h"

namespace jitstep::python {

namespace nb = nanobind;

/// Throws an Error that names two of the parameters by their numbers if they share memory.
void check_disjoint(const std::vector<jit::Elements>& parameters, const std::vector<int>& numbers);

/// The same for tensors. Those without memory share none.
void check_disjoint(const nb::list& parameters, const std::vector<int>& numbers);

}  // namespace jitstep::python
