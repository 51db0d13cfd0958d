// How tensors lie in memory: the host's side of core/team.cuh.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Sizes and strides in elements, in logical order; at most kMaxDims dimensions.
struct JITSTEP_API Shape {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  /// The product of the sizes; 1 for a scalar. An Error for a size below 0, and where the sizes that
  /// are not 0 make more elements than any memory holds (2^48).
  std::int64_t elements() const;
  bool operator==(const Shape&) const = default;
};

/// The strides of the element numbers: storage order (ascending memory stride), without gaps. For a
/// dense tensor they are its own strides. A scalar counts as a vector of one.
JITSTEP_API std::vector<std::int64_t> compact_strides(const Shape& shape);

/// Whether two different indices never meet in memory.
JITSTEP_API bool is_non_overlapping(const Shape& shape);

/// Whether element i of the compact numbering lies at i.
JITSTEP_API bool is_dense(const Shape& shape, std::span<const std::int64_t> compact);

/// Entries and members of a space: products of the sizes outside and inside the entries.
struct Extent {
  std::int64_t entries = 1;
  std::int64_t members = 1;
};
/// The space whose entries run over the dimensions whose bit in `reduced` is not set. An Error as from
/// Shape::elements(), for each of the two.
JITSTEP_API Extent extent(const Shape& shape, unsigned reduced);

}  // namespace jitstep::jit
