#include "jitstep/jit/layout.h"

#include <algorithm>
#include <numeric>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Strides and counts of bytes and bits cannot overflow for this many elements.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  const auto refuse = [&](const char* why) {
    throw Error(str_cat("invalid tensor sizes [",
                        joined(sizes, ", ", [](auto n) { return str_cat(n); }), "]: ", why));
  };
  std::int64_t elements = 1;  // with sizes of 0 counted as 1
  for (const std::int64_t size : sizes) {
    if (size < 0) refuse("sizes must be at least 0");
    if (size > kMostElements / elements) refuse("a tensor can have at most 2^48 elements");
    elements *= std::max<std::int64_t>(size, 1);
  }
  return std::find(sizes.begin(), sizes.end(), 0) == sizes.end() ? elements : 0;
}

// The dimensions from the innermost in memory to the outermost. Dimensions of size 1 come first, because their stride
// has no meaning.
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

std::int64_t Shape::elements() const { return product(sizes); }

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
  if (std::find(shape.sizes.begin(), shape.sizes.end(), 0) != shape.sizes.end()) return true;
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
  std::vector<std::int64_t> outside, inside;
  for (std::size_t d = 0; d < shape.sizes.size(); ++d)
    (reduced >> d & 1u ? inside : outside).push_back(shape.sizes[d]);
  return {product(outside), product(inside)};
}

}  // namespace jitstep::jit
