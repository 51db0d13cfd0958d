// Back ends on torch's thread pool, streams and allocator.
#pragma once

#include <torch/types.h>

#include "jit/tuning/hardware.h"
#include "jitstep/jit/backend.h"

namespace jitstep {

/// The back end of a device. Each process has one for the CPU and one per GPU. Thread-safe.
/// Throws a jit::Error if driver, NVRTC or compiler is missing, or if the device is neither CPU nor CUDA.
jit::Backend& backend_of(const torch::Device& device);

/// Describes the device for tuning records.
jit::Hardware hardware_of(const torch::Device& device);

/// Waits for all work on a device, on all streams. Does nothing for the CPU.
void wait_for_all(const torch::Device& device);

/// Copies from device memory to host memory, after the work on the current stream.
void download(const torch::Device& device, void* to, const void* from, std::size_t bytes);

/// Torch's current stream of the device in this thread.
c10::Stream current_stream(const torch::Device& device);

}  // namespace jitstep
