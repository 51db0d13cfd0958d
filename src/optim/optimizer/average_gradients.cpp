#include "jitstep/sharding.h"
#include "optim/shard/gradient_average.h"
#include "optim/shard/process_group.h"

namespace jitstep {

void average_gradients(const std::vector<torch::Tensor>& parameters,
                       const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                       std::int64_t bucket_bytes) {
  average_gradients_of_ranks(*ranks_of(group), parameters, bucket_bytes);
}

}  // namespace jitstep
