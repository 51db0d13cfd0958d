// The machines steps run on, as torch sees them: its thread pool, its streams, its allocator.
#pragma once

#include <torch/types.h>

#include "jit/codegen/hardware.h"
#include "jitstep/jit/backend.h"

namespace jitstep {

/// The machine of a device, one for the process: all CPU work, or one GPU. A jit::Error says what is
/// missing (driver, NVRTC, compiler) or that the device is none of these.
jit::Backend& backend_of(const torch::Device& device);

/// What that machine is.
jit::Hardware hardware_of(const torch::Device& device);

/// Waits for all work on a device, of any stream; nothing on the CPU.
void wait_for_all(const torch::Device& device);

/// Copies from a device's memory, after the work on the current stream.
void download(const torch::Device& device, void* to, const void* from, std::size_t bytes);

/// Torch's current stream there, in this thread.
c10::Stream current_stream(const torch::Device& device);

}  // namespace jitstep
