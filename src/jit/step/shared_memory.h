// Finds tensors that share memory. Adjacent or interleaved views of one buffer share none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The elements of a tensor in memory. `sizes` and `strides` (in elements, none negative) must outlive it.
struct Elements {
  std::uintptr_t begin, end;  // from the first element to the end of the last one
  std::span<const std::int64_t> sizes, strides;
  std::size_t bytes;  // of an element
};

/// The elements of a tensor that has at least one.
JITSTEP_API Elements elements_at(const void* first, std::span<const std::int64_t> sizes,
                                 std::span<const std::int64_t> strides, std::size_t bytes);

/// True if an element of `a` overlaps an element of `b`.
JITSTEP_API bool share_memory(const Elements& a, const Elements& b);

/// Calls found(i, j) for pairs of tensors that share memory, for each tensor that shares memory with another one at
/// least once. Takes O(n log n) for n tensors. Compares single elements only if address ranges overlap.
JITSTEP_API void find_shared(const std::vector<Elements>& all,
                             const std::function<void(std::size_t, std::size_t)>& found);

/// The address ranges of tensors. Tells quickly that other memory is outside of all of them.
class AddressRanges {
 public:
  AddressRanges() = default;
  JITSTEP_API explicit AddressRanges(const std::vector<Elements>& tensors);

  /// True if one of the ranges has an address from `begin` to before `end`. Takes O(log n) for n tensors.
  JITSTEP_API bool overlap(std::uintptr_t begin, std::uintptr_t end) const;

 private:
  std::vector<std::uintptr_t> begins_;  // in order
  std::vector<std::uintptr_t> ends_;    // the largest end of a range and those before it
};

}  // namespace jitstep::jit
