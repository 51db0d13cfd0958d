// Memory layout of tensors, and the sizes and initial values of the state of one tensor. The host's counterpart of
// kernel/team.cuh.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jitstep/hyper_params.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

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

/// The state of one tensor, without storage. Codes, metadata and residual start as zeros.
struct JITSTEP_API StateLayout {
  /// Bytes of a slot's codes and of its codec's metadata. 0 if the slot is not stored.
  struct Slot {
    std::int64_t codes = 0;
    std::int64_t meta = 0;
    bool values = false;  // codes are plain values in the dtype of the arithmetic
  };
  /// One of the two buffers of a field of auxiliary state.
  struct AuxState {
    std::int64_t entries = 0;
    int bytes = 4;  // of an entry, which is a float or a double
    double initial = 0;
    std::int64_t columns = 0;  // of a matrix of state, whose diagonal starts at `initial`; else 0
    bool is_matrix = false;    // it has one buffer instead of two

    /// Of all buffers.
    std::int64_t total_bytes() const { return (is_matrix ? 1 : 2) * entries * bytes; }
  };

  std::vector<Slot> slots;          // one per slot of the rule
  std::vector<AuxState> aux_state;  // one per field of Plan::aux_state
  std::int64_t residual = 0;        // bytes of the weight format's residual

  /// Bytes of all buffers.
  std::int64_t bytes() const;
  /// True if storage of this layout fits the other one, for kernels. Initial values and matrices may differ.
  bool same_sizes(const StateLayout& other) const;
};

/// The layout of one slot for a tensor with this number of elements.
JITSTEP_API StateLayout::Slot slot_layout(const Plan& plan, int slot, std::int64_t elements);

/// The layout for a tensor of this shape. `initial_aux_state` is a result of initial_aux_state(). It may lack the
/// largest sides of matrices, which are then not limited.
JITSTEP_API StateLayout state_layout(const Plan& plan, const Shape& shape,
                                     const std::vector<double>& initial_aux_state);

/// The value of each field of Plan::aux_state before step 1, then the largest side of each matrix among them.
/// `parameter` is an index into options that are lists.
/// Throws an Error if a list is too short.
JITSTEP_API std::vector<double> initial_aux_state(const Plan& plan, const OptionValues& options,
                                                  std::size_t parameter = 0);

}  // namespace jitstep::jit
