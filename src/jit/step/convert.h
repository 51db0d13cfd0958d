// One slot of one tensor from codes to values and back, by a kernel of its own.
#pragma once

#include "jitstep/jit/export.h"
#include "jitstep/jit/machine.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step_tensor.h"

namespace jitstep::jit {

/// A slot of a tensor, `t` steps taken: a codec's memory is read as after step t.
struct ConvertedSlot {
  const Plan& plan;
  const StepTensor& tensor;
  int slot = 0;
  std::int64_t t = 0;
};

/// Writes what the slot holds: device memory, as wide as the arithmetic, in element order (storage order
/// without gaps). Zeros before step 1.
JITSTEP_API void decode_slot(Machine& machine, const ConvertedSlot& from, void* values);

/// Sets the slot from such values. A codec whose scale comes from sums over the tensor cannot encode
/// alone: an Error.
JITSTEP_API void encode_slot(Machine& machine, const ConvertedSlot& to, const void* values);

}  // namespace jitstep::jit
