// Converts the stored state of one tensor to values and back, with separate kernels.
#pragma once

#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// The stored state of a tensor after step `t`, which selects the buffer of a codec's auxiliary state.
struct StoredTensor {
  const Plan& plan;
  const StepTensor& tensor;
  std::int64_t t = 0;
  /// HyperParams::hyper, for codecs that use numbers of the rule. Empty: the defaults.
  std::vector<double> hyper = {};
};

/// Decodes a slot. `values`: device memory of the arithmetic type (float, or double for float64 parameters), in element
/// order (storage order without gaps). Writes zeros before step 1.
JITSTEP_API void decode_slot(Backend& backend, const StoredTensor& from, int slot, void* values);

/// Encodes a slot from such values. For a codec with reductions, it sets codes and auxiliary state, by a step of an
/// internal rule.
JITSTEP_API void encode_slot(Backend& backend, const StoredTensor& to, int slot,
                             const void* values);

/// Decodes the weights as a rule reads them, from the parameter and its residual.
JITSTEP_API void decode_weights(Backend& backend, const StoredTensor& from, void* values);

/// Encodes such weights: the parameter, rounded to nearest, and its residual.
JITSTEP_API void encode_weights(Backend& backend, const StoredTensor& to, const void* values);

}  // namespace jitstep::jit
