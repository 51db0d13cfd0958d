// NVIDIA's nvdisasm, where somebody has put it.
#pragma once

#include <jitstep/jit/kernel.h>

#include <string>

namespace jitstep::tool::inspect {

/// The path of nvdisasm: on PATH, in CUDA_HOME or /usr/local/cuda, or in the Python packages beside NVRTC. An Error
/// says how to get it.
std::string find_nvdisasm();

/// The SASS of a cubin. An Error for what is PTX: of a GPU that is newer than NVRTC.
std::string disassembled(const jit::Built& built);

}  // namespace jitstep::tool::inspect
