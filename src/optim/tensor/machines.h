// The machines steps run on, as torch sees them: its thread pool, its streams, its allocator.
#pragma once

#include <torch/types.h>

#include "jitstep/jit/machine.h"

namespace jitstep {

/// The machine of a device, one for the process: all CPU work, or one GPU. A jit::Error says what is
/// missing (driver, NVRTC, compiler) or that the device is none of these.
jit::Machine& machine_of(const torch::Device& device);

/// Torch's current stream there, in this thread.
c10::Stream current_stream(const torch::Device& device);

}  // namespace jitstep
