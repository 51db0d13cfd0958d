// What a rule keeps once for all tensors that step together: its Memory of domain `all`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {

/// The memory of domain `all` of one rule, for the tensors of one device. A Step reads one half and writes
/// the other; they change over when it is done, so that a step that failed has changed nothing.
struct JITSTEP_API SharedState {
  /// In the machine's memory: one double for each of the rule's fields of domain `all`, in the order of
  /// declaration.
  std::array<double*, 2> buffers = {};
  std::int64_t steps = 0;        // done so far
  int64* step_offset = nullptr;  // in the machine's memory, for steps with found_inf: how many of
                                 // `steps` were skipped; null: none
  std::shared_ptr<void> storage = {};  // of the halves, where this owns it

  /// The half that holds the current values, where there is no step offset.
  const double* now() const { return buffers[steps & 1]; }
};

/// New memory of the rule at its initial values; no memory at all for a rule that keeps none. The machine
/// must outlive it.
JITSTEP_API SharedState make_shared_state(Backend& backend, const OptionValues& options);

/// What each of the rule's fields of domain `all` holds before the first step.
JITSTEP_API std::vector<double> initial_common_memory(const OptionValues& options);

}  // namespace jitstep::jit
