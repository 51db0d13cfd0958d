// CUDA graph captures of steps on several devices.
#pragma once

#include <vector>

#include "jitstep/jit/backend.h"

namespace jitstep::jit {

/// Throws an Error if some of the back ends capture a CUDA graph and others do not: a replay would step only the
/// tensors of some. `backends`: of the devices whose tensors a step updates.
JITSTEP_API void check_same_capture(const std::vector<Backend*>& backends);

}  // namespace jitstep::jit
