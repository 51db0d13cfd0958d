// Finds and runs NVIDIA's nvdisasm.
#pragma once

#include <jitstep/jit/kernel.h>

#include <string>

namespace jitstep::tool::inspect {

/// The path of nvdisasm: on PATH, in CUDA_HOME, CUDA_PATH or /usr/local/cuda, or in the Python packages next to NVRTC.
/// Throws an Error that tells how to install it.
std::string find_nvdisasm();

/// The SASS of a cubin. Throws an Error if the binary is PTX, because the GPU is newer than NVRTC.
std::string disassembled(const jit::Built& built);

}  // namespace jitstep::tool::inspect
