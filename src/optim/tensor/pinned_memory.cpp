#include "optim/tensor/pinned_memory.h"

#include <algorithm>
#include <bit>

namespace jitstep {
namespace {

constexpr std::int64_t kAlignment = 64;                   // of tensors, for vector loads
constexpr std::int64_t kLargest = std::int64_t{1} << 28;  // block that tensors share

// The bytes between a tensor's first and last element.
std::int64_t extent(torch::IntArrayRef sizes, torch::IntArrayRef strides, std::size_t width) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return (last + 1) * static_cast<std::int64_t>(width);
}

}  // namespace

// Blocks grow with the memory in use, so that few of their bytes stay unused.
PinnedMemory::Block& PinnedMemory::block_with(std::int64_t bytes) {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.bytes.numel() - block.used >= bytes;
  });
  if (found != blocks_.end()) return *found;
  const std::int64_t least = std::max(bytes, std::min(this->bytes(), kLargest));
  const auto size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
  return blocks_.emplace_back(
      Block{torch::empty({size}, torch::dtype(torch::kUInt8).pinned_memory(true))});
}

torch::Tensor PinnedMemory::empty(torch::IntArrayRef sizes, torch::IntArrayRef strides,
                                  torch::ScalarType dtype) {
  const std::int64_t bytes = extent(sizes, strides, c10::elementSize(dtype));
  if (bytes == 0) return torch::empty_strided(sizes, strides, torch::dtype(dtype));
  const std::int64_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Block& block = block_with(taken);
  const torch::Tensor flat = block.bytes.narrow(0, block.used, bytes).view(dtype);
  block.used += taken;
  return flat.as_strided(sizes, strides, flat.storage_offset());
}

std::int64_t PinnedMemory::bytes() const {
  std::int64_t sum = 0;
  for (const Block& block : blocks_) sum += block.bytes.numel();
  return sum;
}

}  // namespace jitstep
