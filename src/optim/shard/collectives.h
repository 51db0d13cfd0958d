// c10d's collective functions under the names of all versions of torch.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace jitstep {

using Work = c10::intrusive_ptr<c10d::Work>;

// torch 2.13 has renamed these functions, and warns about the old names. Templates, so that the names may be missing.

/// Fills `all`, [size n], by the tensors `mine`, [n], of all ranks.
template <class Group>
Work all_gather_by(Group& group, torch::Tensor& all, torch::Tensor& mine) {
  if constexpr (requires { group.all_gather_single(all, mine); })
    return group.all_gather_single(all, mine);
  else
    return group._allgather_base(all, mine);
}

/// `to[r]` elements of `mine` go to rank r, and `from[r]` of `all` come from it. Empty: equal numbers.
template <class Group>
Work all_to_all_by(Group& group, torch::Tensor& all, torch::Tensor& mine,
                   std::vector<std::int64_t> from, std::vector<std::int64_t> to) {
  if constexpr (requires { group.all_to_all_single(all, mine, from, to); })
    return group.all_to_all_single(all, mine, from, to);
  else
    return group.alltoall_base(all, mine, from, to);
}

/// `own`, [n]: this rank's row of the sum of `all`, [size n], over ranks.
template <class Group>
Work reduce_scatter_by(Group& group, torch::Tensor& own, torch::Tensor& all) {
  if constexpr (requires { group.reduce_scatter_single(own, all); })
    return group.reduce_scatter_single(own, all);
  else
    return group._reduce_scatter_base(own, all);
}

}  // namespace jitstep
