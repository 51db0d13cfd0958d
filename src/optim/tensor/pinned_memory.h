// Host memory that GPUs copy from and to without a detour.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace jitstep {

/// Tensors in pinned memory of torch's allocator for CUDA. That allocator knows which streams still copy, also while a
/// program ends, but rounds sizes up to powers of two. This class requests such sizes only, and shares them among
/// tensors. A block returns to torch when its last tensor was released, or when the object and all its tensors are
/// gone. Not thread-safe.
class PinnedMemory {
 public:
  /// An uninitialized tensor that no gradient is recorded for. Throws a c10::Error if the memory cannot be pinned.
  torch::Tensor empty(torch::IntArrayRef sizes, torch::IntArrayRef strides,
                      torch::ScalarType dtype);
  /// Takes back a tensor of empty(), and leaves `tensor` undefined. Its memory is not used again before reclaim(),
  /// because a GPU may still copy from or to it.
  void release(torch::Tensor& tensor);
  /// Makes the memory of released tensors available. Call it while no GPU copies from or to them. A tensor that others
  /// still hold waits for a later call. Nobody may keep only a view of one.
  void reclaim();
  /// Of all blocks.
  std::int64_t bytes() const;

 private:
  struct Block {
    torch::Tensor bytes;  // uint8, [size]
    // First byte and size of each gap. None are adjacent.
    std::map<std::int64_t, std::int64_t> free;

    std::int64_t take(std::int64_t size);
    void give_back(std::int64_t offset, std::int64_t size);
  };

  torch::Tensor take(std::int64_t size);
  void give_back(const torch::Tensor& tensor);

  std::vector<Block> blocks_;
  std::vector<torch::Tensor> released_;
};

}  // namespace jitstep
