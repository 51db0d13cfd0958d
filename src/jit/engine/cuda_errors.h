// Advice for errors of the CUDA driver.
#pragma once

#include <string_view>

namespace jitstep::jit {

/// Advice for a CUresult in full sentences. Empty if the driver's own description is enough.
std::string_view cuda_advice(int code);

}  // namespace jitstep::jit
