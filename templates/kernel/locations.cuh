// Maps elements of a tensor to entries of a domain, and back.
#pragma once
#include "../lang/contract.cuh"
#include "args.cuh"

namespace jitstep {

// Removes the index along dimension d from `position` or `entry`, and returns it. It selects values, because a
// reference to one of the two would put both on the GPU's stack.
KHD int64 take_index(const TensorRecord& t, int d, uint32 reduced, int64& entry, int64& position) {
  const bool inside = reduced >> d & 1u;
  const int64 rest = inside ? position : entry, left = rest / t.dim[d].size;
  position = inside ? left : position;
  entry = inside ? entry : left;
  return rest % t.dim[d].size;
}

// The element at `position` of `entry`, both in logical order, last dimension fastest.
SLOW_PATH int64 element_of(const TensorRecord& t, uint32 reduced, int64 entry, int64 position) {
  int64 element = 0;
  for (int d = t.dims - 1; d >= 0; --d)
    element += take_index(t, d, reduced, entry, position) * t.dim[d].stride;
  return element;
}

KHD int64 coordinate(const TensorRecord& t, int d, int64 element) {
  return element / t.dim[d].stride % t.dim[d].size;
}

SLOW_PATH int64 entry_of(const TensorRecord& t, uint32 reduced, int64 element) {
  int64 entry = 0;
  for (int d = 0; d < t.dims; ++d)
    if (!(reduced >> d & 1u)) entry = entry * t.dim[d].size + coordinate(t, d, element);
  return entry;
}

SLOW_PATH int64 offset_of(const TensorRecord& t, int64 Dim::*stride, int64 element) {
  int64 offset = 0;
  for (int d = 0; d < t.dims; ++d) offset += coordinate(t, d, element) * (t.dim[d].*stride);
  return offset;
}

}  // namespace jitstep
