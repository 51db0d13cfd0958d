// Exchanges of data that ranks have in parts.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "jit/step/partition.h"
#include "jitstep/jit/step.h"
#include "optim/shard/rank_group.h"

namespace jitstep {

/// A tensor of which every rank has a part. `index`: in the partition.
struct GatheredTensor {
  std::size_t index;
  torch::Tensor values;  // one dimension, contiguous, of all elements
};

/// The end of the bucket that begins with a tensor: consecutive tensors of one dtype and at most so many bytes, at
/// least one. tensor_of(i): tensor i of `count`.
template <class TensorOf>
std::size_t bucket_end(std::size_t begin, std::size_t count, std::int64_t most_bytes,
                       const TensorOf& tensor_of) {
  const torch::Tensor& first = tensor_of(begin);
  auto bytes = static_cast<std::int64_t>(first.nbytes());
  std::size_t end = begin + 1;
  for (; end < count; ++end) {
    const torch::Tensor& next = tensor_of(end);
    bytes += static_cast<std::int64_t>(next.nbytes());
    if (next.scalar_type() != first.scalar_type() || bytes > most_bytes) break;
  }
  return end;
}

/// Fills in the other ranks' parts. All ranks give the same tensors in the same order. Needs additional memory for
/// about `bucket_bytes` on each side.
void gather_parts(RankGroup& group, const jit::Partition& partition,
                  const std::vector<GatheredTensor>& tensors,
                  std::int64_t bucket_bytes = std::int64_t{32} << 20);

/// Fills in the partial sums of other ranks, as jit::Exchange. `index_of`: the partition's index by the tensor's id.
void gather_partial_sums(RankGroup& group, const jit::Partition& partition,
                         const std::function<std::size_t(int)>& index_of,
                         const std::vector<jit::PartialSums>& partials,
                         const torch::Device& device);

/// The bytes of all ranks on rank 0, one after the other. Undefined on other ranks. `counts`: bytes of each rank.
torch::Tensor gather_bytes(RankGroup& group, const torch::Tensor& mine,
                           const std::vector<std::int64_t>& counts);

}  // namespace jitstep
