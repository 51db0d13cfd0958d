// The collective operations of sharded optimizers. Knows no communication library, so that others can implement it.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace jitstep {

/// Ranks that train together. All of them must call the same functions in the same order. Each function throws if a
/// rank has failed or does not answer in time.
class RankGroup {
 public:
  RankGroup() = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  virtual ~RankGroup() = default;

  /// The number of this rank, from 0.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The tensors of all ranks, [size, n]. `mine`: contiguous, [n]. Size and dtype must be the same on all ranks.
  virtual torch::Tensor all_gather(const torch::Tensor& mine) = 0;

  /// Waits for a call that was started, and returns its result. Call it once, or not at all.
  using Result = std::function<torch::Tensor()>;

  /// The elements that ranks send to this rank, in the order of ranks. `mine`: contiguous, the elements for rank 0, for
  /// rank 1, ... `to[r]` elements go to rank r, and `from[r]` come from it.
  torch::Tensor all_to_all(const torch::Tensor& mine, const std::vector<std::int64_t>& to,
                           const std::vector<std::int64_t>& from) {
    return start_all_to_all(mine, to, from)();
  }
  virtual Result start_all_to_all(const torch::Tensor& mine, const std::vector<std::int64_t>& to,
                                  const std::vector<std::int64_t>& from) = 0;

  /// The elements of this rank in the sum of all ranks' `mine`: contiguous, [size n], of a floating-point dtype, with n
  /// elements for each rank. The back end chooses the order in which it adds.
  virtual Result start_reduce_scatter(const torch::Tensor& mine) = 0;
};

}  // namespace jitstep
