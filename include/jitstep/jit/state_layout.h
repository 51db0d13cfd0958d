// Sizes and initial values of the state of one tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// The state of one tensor, without storage. Codes, metadata and residual start as zeros.
struct JITSTEP_API StateLayout {
  /// Bytes of a slot's codes and of its codec's metadata. 0 if the slot is not stored.
  struct Slot {
    std::int64_t codes = 0;
    std::int64_t meta = 0;
    bool values = false;  // codes are plain values in the dtype of the arithmetic
  };
  /// One of both buffers of a field of auxiliary state.
  struct AuxState {
    std::int64_t entries = 0;
    int bytes = 4;  // of an entry, which is a float or a double
    double initial = 0;
  };

  std::vector<Slot> slots;          // one per slot of the rule
  std::vector<AuxState> aux_state;  // one per field of Plan::aux_state
  std::int64_t residual = 0;        // bytes of the weight format's residual

  /// Bytes of all buffers.
  std::int64_t bytes() const;
  /// True if storage of this layout fits the other one. Initial values may differ.
  bool same_sizes(const StateLayout& other) const;
};

/// The layout of one slot for a tensor with this number of elements.
JITSTEP_API StateLayout::Slot slot_layout(const Plan& plan, int slot, std::int64_t elements);

/// The layout for a tensor of this shape. `initial_aux_state` has one value per field, as initial_aux_state() returns.
JITSTEP_API StateLayout state_layout(const Plan& plan, const Shape& shape,
                                     const std::vector<double>& initial_aux_state);

/// The value of each field of Plan::aux_state before step 1. `parameter` is an index into options that are lists.
/// Throws an Error if a list is too short.
JITSTEP_API std::vector<double> initial_aux_state(const Plan& plan, const OptionValues& options,
                                                  std::size_t parameter = 0);

}  // namespace jitstep::jit
