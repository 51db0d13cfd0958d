// The pinned memory of the device that tests/optim_cuda/cuda_device.cpp registers.
#pragma once

#include <cstddef>
#include <vector>

namespace jitstep::tests {

/// The sizes of all blocks that are allocated now.
__attribute__((visibility("default"))) std::vector<std::size_t> pinned_blocks();

}  // namespace jitstep::tests
