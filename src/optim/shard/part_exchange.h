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
struct SharedTensor {
  std::size_t index;
  torch::Tensor values;  // one dimension, contiguous, of all elements
};

/// Fills in the other ranks' parts. All ranks give the same tensors in the same order. Needs additional memory for
/// about `bucket_bytes` on each side.
void gather_parts(RankGroup& group, const jit::Partition& partition,
                  const std::vector<SharedTensor>& tensors,
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
