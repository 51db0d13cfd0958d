// What a step keeps for one tensor, in a machine's own memory, for programs without tensors of a
// framework.
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

/// The state of one tensor before its first step. The machine must outlive it, and it must outlive
/// the steps that use it.
class JITSTEP_API StateStorage {
 public:
  /// Of a dense tensor of these sizes, last index fastest. An Error if the rule refuses tensors of so many
  /// dimensions.
  StateStorage(Backend& backend, const Plan& plan, const OptionValues& options,
               const std::vector<std::int64_t>& sizes);
  /// The same with what each of Plan::memory begins with.
  StateStorage(Backend& backend, const Plan& plan, const std::vector<double>& initial_memory,
               const std::vector<std::int64_t>& sizes);

  /// The tensor at `p`, in the machine's memory, with this state; its gradients lie as it does.
  /// `id`: its place among those that step together.
  StepTensor tensor(void* p, int id = 0) const;

  /// Bytes of everything kept.
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
