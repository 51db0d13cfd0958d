// The state of a whole parameter, from the parts of all ranks.
#pragma once

#include <cstddef>

#include "jit/step/partition.h"
#include "optim/shard/rank_group.h"
#include "optim/state/state_buffers.h"

namespace jitstep {

/// On rank 0 the state of the whole parameter `p`, as a single process would have it. On other ranks it has no tensors.
/// All ranks call it with their part of the same parameter. `index`: in the partition. The state must have a plan.
StateBuffers gather_state(RankGroup& group, const jit::Partition& partition, std::size_t index,
                          const StateBuffers& part, const torch::Tensor& p,
                          const std::vector<double>& initial_aux_state);

}  // namespace jitstep
