// What is kept of one tensor to values and back, by kernels of their own.
#pragma once

#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step_tensor.h"

namespace jitstep::jit {

/// What is kept of a tensor, `t` steps taken: a codec's memory is read as after step t.
struct StoredTensor {
  const Plan& plan;
  const StepTensor& tensor;
  std::int64_t t = 0;
  /// HyperParams::hyper, for codecs whose numbers are some of the rule's; empty: the defaults.
  std::vector<double> hyper = {};
};

/// Writes what a slot holds: device memory, as wide as the arithmetic, in element order (storage order
/// without gaps). Zeros before step 1.
JITSTEP_API void decode_slot(Backend& backend, const StoredTensor& from, int slot, void* values);

/// Sets the slot from such values. Of a codec that remembers what it found out of the whole tensor both are set, by
/// a step of a rule that does nothing else.
JITSTEP_API void encode_slot(Backend& backend, const StoredTensor& to, int slot,
                             const void* values);

/// Writes the weights as a rule sees them, from the parameter and what its format keeps beside it.
JITSTEP_API void decode_weights(Backend& backend, const StoredTensor& from, void* values);

/// Sets the parameter, to nearest, and what its format keeps beside it from such weights.
JITSTEP_API void encode_weights(Backend& backend, const StoredTensor& to, const void* values);

}  // namespace jitstep::jit
