// The layout of a tensor without gaps.
#pragma once

#include <cstdint>
#include <vector>

#include "jitstep/jit/layout.h"

namespace jitstep::jit {

/// The row-major shape of these sizes. Without sizes: a vector of one element, which stands for a scalar. Throws the
/// Errors of Shape::elements().
inline Shape dense_shape(const std::vector<std::int64_t>& sizes) {
  Shape shape{sizes.empty() ? std::vector<std::int64_t>{1} : sizes, {}};
  shape.strides.resize(shape.sizes.size());
  shape.elements();  // before the products of sizes, which could overflow
  std::int64_t next = 1;
  for (std::size_t d = shape.sizes.size(); d-- > 0; next *= shape.sizes[d]) shape.strides[d] = next;
  return shape;
}

}  // namespace jitstep::jit
