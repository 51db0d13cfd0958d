// One tensor as a step sees it: where it, its state and its gradient lie.
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

/// A parameter with what is kept for it. Addresses are the machine's.
struct JITSTEP_API StepTensor {
  void* p = nullptr;
  void* residual = nullptr;        // of the weight format
  bool residual_is_set = false;    // what earlier steps left there is read, also in step 1
  std::vector<SlotBuffers> slots;  // one for each of the rule, empty if left out
  std::vector<std::array<void*, 2>> aux_state;  // one for each of Plan::memory
  Shape shape;                                  // of p
  std::vector<std::int64_t> g_strides;          // in elements, in p's logical order
  int id = 0;               // order in the optimizer: names random bits, orders sums
  std::int64_t offset = 0;  // global number of element 0, a multiple of 8
  std::optional<StateLayout> layout = std::nullopt;  // of its state, if known; then it is checked
};

/// What a tensor is given in one step.
struct JITSTEP_API StepInput {
  const void* g = nullptr;
  int hyper_index = 0;   // index into the step's HyperSets
  bool aligned = false;  // p, g, extra and codes to 16 bytes
  void* cleared =
      nullptr;  // g again, where the step is to leave zeros in it, also when it is skipped
  bool inactive = false;  // takes no part in this step, nor in its sums; the rest is not looked at
  bool operator==(const StepInput&) const = default;
};

}  // namespace jitstep::jit
