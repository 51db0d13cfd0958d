// Host transforms, such as Muon's iteration, of tensors of which every rank has a part.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "jit/step/partition.h"
#include "optim/shard/rank_group.h"

namespace jitstep {

/// The values of one parameter inside a step.
struct PartialValues {
  std::size_t index;        // in the partition
  std::size_t group;        // the parameter group
  torch::Tensor like;       // the whole values have its sizes and storage order, without gaps
  torch::ScalarType dtype;  // of the values
  torch::Tensor part;       // this rank's part, contiguous; undefined if it is empty
  bool stays = false;  // one rank has all values and the matrices of state, and transforms them
};

/// All values of one parameter.
struct WholeValues {
  std::size_t index;  // among the PartialValues
  torch::Tensor values;
};

/// The rank that transforms each of these values. Balances the work of matrix iterations. Equal on all ranks.
std::vector<int> transform_owners(const std::vector<PartialValues>& all, int ranks);

/// Brings the parts of each parameter to one rank, which calls `transform` with whole values, once per group. Then
/// replaces every part by the result. All ranks give the same parameters in the same order.
void transform_whole(
    RankGroup& group, const jit::Partition& partition, const std::vector<PartialValues>& all,
    const std::function<void(std::size_t group, const std::vector<WholeValues>&)>& transform);

}  // namespace jitstep
