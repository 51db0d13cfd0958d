// Memory layout of tensors. The host's counterpart of kernel/team.cuh.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Sizes and strides in elements, in logical order. At most kMaxDims dimensions.
struct JITSTEP_API Shape {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  /// The product of the sizes, 1 for a scalar. Throws an Error for a negative size, and if the product of the nonzero
  /// sizes exceeds any memory (2^48).
  std::int64_t elements() const;
  bool operator==(const Shape&) const = default;
};

/// The strides of the element numbers: storage order (ascending memory stride) without gaps. For a dense tensor these
/// are its own strides. A scalar counts as a vector with one element.
JITSTEP_API std::vector<std::int64_t> compact_strides(const Shape& shape);

/// True if two different indices never have the same address.
JITSTEP_API bool is_non_overlapping(const Shape& shape);

/// True if element i of the compact numbering is at offset i.
JITSTEP_API bool is_dense(const Shape& shape, std::span<const std::int64_t> compact);

/// Sizes of a reduction layout: the number of entries, and of elements (members) per entry.
struct Extent {
  std::int64_t entries = 1;
  std::int64_t members = 1;
};
/// The extent of the reduction over the dimensions whose bit in `reduced` is set. Throws the Errors of
/// Shape::elements(), for each of both products.
JITSTEP_API Extent extent(const Shape& shape, unsigned reduced);

}  // namespace jitstep::jit
