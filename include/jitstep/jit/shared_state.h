// Shared state: the auxiliary state that a rule stores once for all tensors that step together (domain `all`).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {

/// The shared state of one rule, for the tensors of one device. A Step reads one buffer and writes the other, and
/// switches them at its end. A step that failed has therefore changed nothing.
struct JITSTEP_API SharedState {
  /// In device memory: one double for each field of domain `all` of the rule, in order of declaration.
  std::array<double*, 2> buffers = {};
  std::int64_t steps = 0;        // taken so far
  int64* step_offset = nullptr;  // in device memory: how many of them found_inf skipped; null: none
  std::shared_ptr<void> storage = {};  // owner of the buffers, if this owns them

  /// The buffer with the current values, if there is no step offset.
  const double* now() const { return buffers[steps & 1]; }
};

/// New shared state with initial values. Empty for a rule without shared state. The back end must outlive it.
JITSTEP_API SharedState make_shared_state(Backend& backend, const OptionValues& options);

/// Initial values of the rule's fields of domain `all`.
JITSTEP_API std::vector<double> initial_shared_state(const OptionValues& options);

}  // namespace jitstep::jit
