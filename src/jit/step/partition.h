// Which part of each tensor each rank steps, when several ranks share the state of one optimizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// A part of a tensor begins at a multiple of so many elements. Such a part has whole partial sums and whole blocks.
inline constexpr std::int64_t kPartElements = 4096;

/// Elements [first, last) of a tensor, in storage order without gaps.
struct Part {
  std::int64_t first = 0, last = 0;

  std::int64_t count() const { return last - first; }
  bool operator==(const Part&) const = default;
};

/// A tensor, as the partition sees it.
struct PartitionedTensor {
  std::int64_t elements = 0;
  std::int64_t grain = kPartElements;  // parts begin at multiples; 0: the tensor cannot be cut
};

/// The grain of a tensor with this plan. 0 if its sums or its auxiliary state are per row, column or the like, so that
/// one rank must have the whole tensor.
JITSTEP_API std::int64_t part_grain(const Plan& plan);

/// Deals tensors to ranks. A pure function of sizes, grains and the number of ranks, so every rank makes the same.
/// Tensors that cannot be cut go to the rank with the fewest elements so far, the largest tensor first. Every other
/// tensor is dealt to all ranks: equal numbers of grains in the order of ranks, and remaining grains to the ranks that
/// have the fewest elements so far.
class JITSTEP_API Partition {
 public:
  /// Throws an Error if `ranks` is below 1, or if a size or grain is negative.
  Partition(const std::vector<PartitionedTensor>& tensors, int ranks);

  int ranks() const { return static_cast<int>(elements_.size()); }
  std::size_t size() const { return tensors_; }
  /// The part of a tensor that a rank has. An empty part is from 0 to 0.
  const Part& part(int rank, std::size_t tensor) const {
    return parts_[static_cast<std::size_t>(rank) * tensors_ + tensor];
  }
  /// The elements that a rank has of all tensors.
  std::int64_t elements(int rank) const { return elements_[static_cast<std::size_t>(rank)]; }
  /// The largest rank's elements, divided by an equal share of all elements. 1 without elements.
  double imbalance() const;

 private:
  void give_whole(const std::vector<PartitionedTensor>& tensors);
  void deal(const PartitionedTensor& tensor, std::size_t index);
  Part& at(std::size_t rank, std::size_t tensor) { return parts_[rank * tensors_ + tensor]; }

  std::size_t tensors_;
  std::vector<Part> parts_;             // [rank][tensor]
  std::vector<std::int64_t> elements_;  // [rank]
};

}  // namespace jitstep::jit
