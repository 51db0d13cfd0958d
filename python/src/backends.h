// The back end of the CPU, with the threads of the OpenMP library that the process has loaded.
#pragma once

#include <string>

#include "jitstep/jit/backend.h"

namespace jitstep::python {

/// The back end of the default engine. Never destroyed.
jit::Backend& cpu_backend();

/// Names the package's folder of compiled kernels, and a compiler to use if PATH has none. Both may be empty. Only the
/// first call has an effect.
void use_package(const std::string& kernels, const std::string& compiler);

/// The most threads of a launch. torch.get_num_threads() is not known to this module, so the package sets it.
void set_threads(int count);

/// True if the process has loaded GNU OpenMP or a compatible library, as torch does on Linux. Otherwise every launch
/// runs in the calling thread.
bool has_openmp();

}  // namespace jitstep::python
