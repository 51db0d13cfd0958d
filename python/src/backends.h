// The back ends of the default engine: the CPU's, with the threads of the OpenMP library that the process has loaded,
// and one for each NVIDIA GPU, with torch's streams and memory.
#pragma once

#include <string>

#include "exchange.h"
#include "jit/tuning/hardware.h"
#include "jitstep/jit/backend.h"

namespace jitstep::python {

/// The back end of a device. Never destroyed. Opens the CUDA driver for the first GPU. Thread safe, with or without the
/// GIL. Throws an Error for a device without kernels, and without a driver or GPU.
jit::Backend& backend_of(const Device& device);

/// Throws an Error if the device's current stream is captured into a CUDA graph. Call it before state is made or a step
/// begins: a graph could not repeat either.
void check_not_capturing(const Device& device);

/// The hardware of a device, for tuning.
jit::Hardware hardware_of(const Device& device);

/// Names the package's folder of compiled kernels, a compiler to use if PATH has none, and a folder with NVRTC, such as
/// site-packages, to search first. All may be empty. Only the first call has an effect.
void use_package(const std::string& kernels, const std::string& compiler, const std::string& nvrtc);

/// The most threads of a launch. torch.get_num_threads() is not known to this module, so the package sets it.
void set_threads(int count);

/// True if the process has loaded GNU OpenMP or a compatible library, as torch does on Linux. Otherwise every launch
/// runs in the calling thread.
bool has_openmp();

}  // namespace jitstep::python
