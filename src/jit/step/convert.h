// One slot of one tensor from codes to values and back, by a kernel of its own.
#pragma once

#include "jitstep/jit/export.h"
#include "jitstep/jit/machine.h"
#include "jitstep/jit/step_tables.h"

namespace jitstep::jit {

/// direction: "decode" or "encode". values: device memory, as wide as the arithmetic, in element
/// order (storage order without gaps). `t`: steps taken; a codec's memory is read as after step t.
/// A codec whose scale comes from sums over the tensor cannot encode alone: an Error.
JITSTEP_API void convert_slot(Machine& machine, const Plan& plan, const StepTensor& tensor,
                              int slot, const std::string& direction, void* values, std::int64_t t);

}  // namespace jitstep::jit
