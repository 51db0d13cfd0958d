// State of one tensor in memory of a back end, for programs without a tensor library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/state_layout.h"
#include "jitstep/jit/step_tensor.h"

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

}  // namespace jitstep::jit
