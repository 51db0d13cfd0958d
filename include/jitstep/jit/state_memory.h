// What a step keeps for one tensor, in a machine's own memory, for programs without tensors of a
// framework.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/machine.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step_tables.h"

namespace jitstep::jit {

/// Bytes that one slot of a tensor takes: its codes, and what the codec keeps for each block.
struct SlotBytes {
  std::int64_t codes = 0;
  std::int64_t meta = 0;
};
/// Of a slot; nothing if it is left out.
JITSTEP_API SlotBytes slot_bytes(const Plan& plan, int slot, std::int64_t elements);

/// The state of one tensor before its first step. The machine must outlive it, and it must outlive
/// the steps that use it.
class JITSTEP_API StateMemory {
 public:
  /// Of a dense tensor of these sizes, last index fastest.
  StateMemory(Machine& machine, const Plan& plan, const OptionValues& options,
              const std::vector<std::int64_t>& sizes);

  /// The tensor at `p`, in the machine's memory, with this state; its gradients lie as it does.
  /// `id`: its place among those that step together.
  StepTensor tensor(void* p, int id = 0) const;

  /// Bytes of everything kept.
  std::int64_t bytes() const { return bytes_; }

 private:
  void* add(Machine& machine, const std::vector<std::byte>& content);
  void add_memory(Machine& machine, const PlannedMemory& field, double initial);

  Shape shape_;
  void* extra_ = nullptr;
  std::vector<SlotBuffers> slots_;
  std::vector<std::array<void*, 2>> memory_;
  std::vector<std::shared_ptr<void>> held_;
  std::int64_t bytes_ = 0;
};

}  // namespace jitstep::jit
