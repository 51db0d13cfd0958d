// The mean of all ranks' gradients, added in the order of ranks.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "optim/shard/rank_group.h"

namespace jitstep {

/// average_gradients() of jitstep/sharding.h, over any ranks.
void average_gradients_of_ranks(RankGroup& group, const std::vector<torch::Tensor>& parameters,
                                std::int64_t bucket_bytes);

}  // namespace jitstep
