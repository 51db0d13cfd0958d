// One tensor of a step: addresses of the parameter, its state and its gradient.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/state_layout.h"

namespace jitstep::jit {

/// A parameter and its state. All addresses are in device memory.
struct JITSTEP_API StepTensor {
  void* p = nullptr;
  void* residual = nullptr;                     // of the weight format
  bool residual_is_set = false;                 // residual of earlier steps is read, even in step 1
  std::vector<SlotBuffers> slots;               // one per slot of the rule, empty if not stored
  std::vector<std::array<void*, 2>> aux_state;  // one per field of Plan::aux_state
  Shape shape;                                  // of p
  std::vector<std::int64_t> g_strides;          // in elements, in p's logical order
  int id = 0;               // index in the optimizer: selects random bits, orders sums
  std::int64_t offset = 0;  // global number of element 0, a multiple of 8; nonzero for a shard
  /// Elements of the whole tensor, if this is a part of it that begins at `offset`. Its sums then cover the whole
  /// tensor, and the step needs an Exchange. A part has one dimension, and may be empty. 0: this is the whole tensor.
  std::int64_t whole = 0;
  std::optional<StateLayout> layout = std::nullopt;  // of its state, if known; then it is checked
};

/// The inputs of one tensor in one step.
struct JITSTEP_API StepInput {
  const void* g = nullptr;
  int hyper_index = 0;      // index into the step's HyperParams
  bool aligned = false;     // p, g, residual and codes are aligned to 16 bytes
  void* cleared = nullptr;  // g, if the step must set it to zero, also when it is skipped
  bool inactive = false;    // excluded from this step and its sums; other fields are ignored
  bool operator==(const StepInput&) const = default;
};

}  // namespace jitstep::jit
