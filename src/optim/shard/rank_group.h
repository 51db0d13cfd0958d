// The collectives that shared state needs. Knows no communication library, so that others can implement it.
#pragma once

#include <torch/types.h>

#include <cstdint>
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

  /// The elements that ranks send to this rank, in the order of ranks. `mine`: contiguous, the elements for rank 0, for
  /// rank 1, ... `to[r]` elements go to rank r, and `from[r]` come from it.
  virtual torch::Tensor all_to_all(const torch::Tensor& mine, const std::vector<std::int64_t>& to,
                                   const std::vector<std::int64_t>& from) = 0;
};

}  // namespace jitstep
