// Memory and communication of an optimizer whose state several ranks share.
#pragma once

#include <jitstep/jit/plan.h>

#include <cstdint>

namespace jitstep::tool::memory {

/// Per rank and step. Bytes on the wire are those that a rank must at least receive.
struct RankPlan {
  int ranks = 1;
  bool is_cut = true;            // whether ranks have parts of tensors, not whole ones
  double imbalance = 1;          // the largest rank's elements, divided by an equal share
  std::int64_t elements = 0;     // of the largest rank
  std::int64_t state = 0;        // bytes of the largest rank
  std::int64_t parameters = 0;   // bytes of new parameters, from the other ranks
  std::int64_t sums = 0;         // bytes of partial sums, from the other ranks
  std::int64_t transformed = 0;  // bytes of values for a host transform, there and back
};

/// Shares matrices of 1024 x 1024 with so many parameters in all, or larger ones if these were more than 4096.
/// `state_per_parameter`: bytes of slots and residual. `aux_state`: bytes of all auxiliary state. Throws an Error for
/// less than 1 rank, or more than 65536.
RankPlan rank_plan(const jit::Plan& kernel, std::int64_t parameters, int ranks,
                   double state_per_parameter, std::int64_t aux_state);

}  // namespace jitstep::tool::memory
