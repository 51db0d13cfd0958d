#include "jitstep/jit/layout.h"

#include <algorithm>
#include <numeric>

namespace jitstep::jit {
namespace {

// Dimensions from the innermost in memory outwards. Those of one index have no place of their own.
std::vector<int> inner_to_outer(const Shape& shape) {
  std::vector<int> order(shape.sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const bool single_a = shape.sizes[a] == 1, single_b = shape.sizes[b] == 1;
    if (single_a || single_b) return single_a && !single_b;
    return shape.strides[a] < shape.strides[b];
  });
  return order;
}

}  // namespace

std::int64_t Shape::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::int64_t> compact_strides(const Shape& shape) {
  std::vector<std::int64_t> compact(shape.sizes.size());
  std::int64_t next = 1;
  for (int d : inner_to_outer(shape)) {
    compact[d] = next;
    next *= std::max<std::int64_t>(shape.sizes[d], 1);
  }
  return compact;
}

bool is_non_overlapping(const Shape& shape) {
  if (shape.elements() < 2) return true;
  std::int64_t reach = 0;
  for (int d : inner_to_outer(shape)) {
    if (shape.sizes[d] == 1) continue;
    if (shape.strides[d] <= reach) return false;
    reach += (shape.sizes[d] - 1) * shape.strides[d];
  }
  return true;
}

bool is_dense(const Shape& shape, std::span<const std::int64_t> compact) {
  for (std::size_t d = 0; d < shape.sizes.size(); ++d)
    if (shape.sizes[d] > 1 && shape.strides[d] != compact[d]) return false;
  return true;
}

Extent extent(const Shape& shape, unsigned reduced) {
  Extent result;
  for (std::size_t d = 0; d < shape.sizes.size(); ++d)
    (reduced >> d & 1u ? result.members : result.entries) *= shape.sizes[d];
  return result;
}

}  // namespace jitstep::jit
