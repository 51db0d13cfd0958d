// Host memory that GPUs copy from and to without a detour.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace jitstep {

/// Tensors in pinned memory of torch's allocator for CUDA. That allocator knows which streams still copy, also while a
/// program ends, but rounds sizes up to powers of two. This class requests such sizes only, and shares them among
/// tensors. Memory returns to torch when the object and all its tensors are gone. Not thread-safe.
class PinnedMemory {
 public:
  /// An uninitialized tensor that no gradient is recorded for. Throws a c10::Error if the memory cannot be pinned.
  torch::Tensor empty(torch::IntArrayRef sizes, torch::IntArrayRef strides,
                      torch::ScalarType dtype);
  /// Of all blocks.
  std::int64_t bytes() const;

 private:
  struct Block {
    torch::Tensor bytes;  // uint8, [size]
    std::int64_t used = 0;
  };

  Block& block_with(std::int64_t bytes);

  std::vector<Block> blocks_;
};

}  // namespace jitstep
