// A GPU's stream and memory, from torch by its Python interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "exchange.h"
#include "jit/step/cuda_backend.h"

namespace jitstep::python {

/// Torch's current stream and its caching allocator. Its functions take the GIL where they need it.
std::unique_ptr<jit::CudaHost> torch_cuda_host(const Device& device);

/// A tensor of memory that it does not own, of float, or of double. Needs the GIL.
nb::object tensor_at(const Device& device, void* memory, const std::vector<std::int64_t>& sizes,
                     const std::vector<std::int64_t>& strides, bool is_double);

/// Waits until the device has done all work. Takes the GIL for a GPU.
void wait_for_all(const Device& device);

/// Copies from a device's memory, after the work on its current stream. Takes the GIL for a GPU.
void download(const Device& device, void* to, const void* from, std::size_t bytes);

/// Copies to a device's memory, likewise. `from` may change when this returns.
void upload(const Device& device, void* to, const void* from, std::size_t bytes);

}  // namespace jitstep::python
