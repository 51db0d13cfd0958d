// Completes a requested spec with all default values.
#pragma once

#include "jitstep/jit/spec.h"

namespace jitstep::jit {

/// The spec with all flags and codec options set. Two specs of the same kernel become equal. Throws an Error for
/// invalid names, types, dtypes or slots.
KernelSpec complete(const KernelSpec& spec, const Catalog& catalog);

}  // namespace jitstep::jit
