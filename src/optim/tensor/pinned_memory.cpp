#include "optim/tensor/pinned_memory.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "jit/base/integers.h"

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

std::int64_t aligned(std::int64_t bytes) { return jit::round_up(bytes, kAlignment); }

}  // namespace

// The first byte of the first gap that is large enough. Negative: there is none.
std::int64_t PinnedMemory::Block::take(std::int64_t size) {
  const auto gap =
      std::find_if(free.begin(), free.end(), [&](const auto& one) { return one.second >= size; });
  if (gap == free.end()) return -1;
  const auto [offset, available] = *gap;
  free.erase(gap);
  if (available > size) free.emplace(offset + size, available - size);
  return offset;
}

// Joins adjacent gaps, so that a larger tensor fits.
void PinnedMemory::Block::give_back(std::int64_t offset, std::int64_t size) {
  const auto gap = free.emplace(offset, size).first;
  if (const auto next = std::next(gap); next != free.end() && offset + size == next->first) {
    gap->second += next->second;
    free.erase(next);
  }
  if (gap == free.begin()) return;
  if (const auto last = std::prev(gap); last->first + last->second == offset) {
    last->second += gap->second;
    free.erase(gap);
  }
}

// Blocks grow with the memory in use, so that few of their bytes stay unused.
torch::Tensor PinnedMemory::take(std::int64_t size) {
  for (Block& block : blocks_)
    if (const std::int64_t offset = block.take(size); offset >= 0)
      return block.bytes.narrow(0, offset, size);
  const std::int64_t least = std::max(size, std::min(bytes(), kLargest));
  const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
  Block& block = blocks_.emplace_back(
      Block{torch::empty({whole}, torch::dtype(torch::kUInt8).pinned_memory(true)), {{0, whole}}});
  return block.bytes.narrow(0, block.take(size), size);
}

torch::Tensor PinnedMemory::empty(torch::IntArrayRef sizes, torch::IntArrayRef strides,
                                  torch::ScalarType dtype) {
  const std::int64_t bytes = extent(sizes, strides, c10::elementSize(dtype));
  if (bytes == 0) return torch::empty_strided(sizes, strides, torch::dtype(dtype));
  const torch::Tensor flat = take(aligned(bytes)).narrow(0, 0, bytes).view(dtype);
  return flat.as_strided(sizes, strides, flat.storage_offset());
}

void PinnedMemory::release(torch::Tensor& tensor) {
  if (tensor.defined() && tensor.numel() > 0) released_.push_back(tensor);
  tensor.reset();
}

void PinnedMemory::reclaim() {
  std::erase_if(released_, [this](const torch::Tensor& one) {
    if (one.use_count() > 1) return false;
    give_back(one);
    return true;
  });
}

void PinnedMemory::give_back(const torch::Tensor& tensor) {
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& one) { return one.bytes.is_alias_of(tensor); });
  const auto width = static_cast<std::size_t>(tensor.element_size());
  block->give_back(tensor.storage_offset() * tensor.element_size(),
                   aligned(extent(tensor.sizes(), tensor.strides(), width)));
  if (block->free.begin()->second == block->bytes.numel()) blocks_.erase(block);
}

std::int64_t PinnedMemory::bytes() const {
  std::int64_t sum = 0;
  for (const Block& block : blocks_) sum += block.bytes.numel();
  return sum;
}

}  // namespace jitstep
