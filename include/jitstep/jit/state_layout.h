// What a step keeps for one tensor: how many bytes of what, and what they hold before the first step.
#pragma once

#include <cstdint>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// The state of one tensor, without its memory. Codes, meta and extras begin as zeros.
struct JITSTEP_API StateLayout {
  /// Bytes of a slot's codes, and of what its codec keeps for each block; none if it is left out.
  struct Slot {
    std::int64_t codes = 0;
    std::int64_t meta = 0;
    bool values = false;  // the codes are the values, as wide as the arithmetic
  };
  /// One of the two buffers of a memory field.
  struct AuxState {
    std::int64_t entries = 0;
    int bytes = 4;  // of an entry, which is a float or a double
    double initial = 0;
  };

  std::vector<Slot> slots;          // one for each of the rule
  std::vector<AuxState> aux_state;  // one for each of Plan::memory
  std::int64_t residual = 0;        // bytes that the weight format keeps beside the tensor

  /// Of everything.
  std::int64_t bytes() const;
  /// Whether memory of this layout can hold what the other describes, whatever it begins with.
  bool same_memory(const StateLayout& other) const;
};

/// Of one slot of a tensor of so many elements.
JITSTEP_API StateLayout::Slot slot_layout(const Plan& plan, int slot, std::int64_t elements);

/// Of a tensor of this shape. `initial_memory`: one value for each field, as from initial_memory().
JITSTEP_API StateLayout state_layout(const Plan& plan, const Shape& shape,
                                     const std::vector<double>& initial_memory);

/// What each memory field of a kernel holds before step 1. `parameter` indexes options that are lists; an
/// Error if one is too short.
JITSTEP_API std::vector<double> initial_memory(const Plan& plan, const OptionValues& options,
                                               std::size_t parameter = 0);

}  // namespace jitstep::jit
