// State in memory of a back end, for programs without a tensor library: of one tensor, and the state that all tensors
// share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// The state of one tensor before its first step. The back end must outlive it, and it must outlive the steps that use
/// it.
class JITSTEP_API StateStorage {
 public:
  /// For a dense, row-major tensor of these sizes. Throws an Error if the rule does not support this number of
  /// dimensions.
  StateStorage(Backend& backend, const Plan& plan, const OptionValues& options,
               const std::vector<std::int64_t>& sizes);
  /// The same with given initial values of Plan::aux_state.
  StateStorage(Backend& backend, const Plan& plan, const std::vector<double>& initial_aux_state,
               const std::vector<std::int64_t>& sizes);

  /// The tensor at `p`, an address in device memory, with this state. Its gradients must have the same layout. `id` is
  /// its index among the tensors that step together.
  StepTensor tensor(void* p, int id = 0) const;

  /// Bytes of all buffers.
  std::int64_t bytes() const { return layout_.bytes(); }

 private:
  void* add(Backend& backend, const std::vector<std::byte>& content);
  void* add_zeros(Backend& backend, std::int64_t bytes);

  Shape shape_;
  StateLayout layout_;
  void* residual_ = nullptr;
  std::vector<SlotBuffers> slots_;
  std::vector<std::array<void*, 2>> aux_state_;
  std::vector<std::shared_ptr<void>> held_;
};

/// The shared state of one rule, for the tensors of one device. A Step reads one buffer and writes the other, and
/// switches them at its end. A step that failed has therefore changed nothing.
struct JITSTEP_API SharedState {
  /// In device memory: one double for each field of domain `all` of the rule, in order of declaration.
  std::array<double*, 2> buffers = {};
  std::int64_t steps = 0;              // counted by the host
  int64* step_offset = nullptr;        // in device memory: `steps` minus the steps taken; null: 0
  std::shared_ptr<void> storage = {};  // owner of the buffers, if this owns them

  /// The buffer with the current values, if there is no step offset.
  const double* now() const { return buffers[steps & 1]; }
};

/// New shared state with initial values. Empty for a rule without shared state. The back end must outlive it.
JITSTEP_API SharedState make_shared_state(Backend& backend, const OptionValues& options);

/// Initial values of the rule's fields of domain `all`.
JITSTEP_API std::vector<double> initial_shared_state(const OptionValues& options);

}  // namespace jitstep::jit
