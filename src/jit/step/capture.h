// CUDA graph captures of steps on several devices.
#pragma once

#include <vector>

#include "jitstep/jit/backend.h"

namespace jitstep::jit {

/// Throws an Error if some of the back ends capture a CUDA graph and others do not. The back ends of a step that
/// updates tensors: a replay of the graph would step only a part of them.
JITSTEP_API void check_same_capture(std::vector<Backend*> backends);

}  // namespace jitstep::jit
