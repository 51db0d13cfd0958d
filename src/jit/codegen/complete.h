// From what was asked for to all that a kernel needs to be told.
#pragma once

#include "jitstep/jit/spec.h"

namespace jitstep::jit {

/// The spec with every flag and codec option given; two specs of the same kernel become equal. Checks
/// names, types, dtypes and slots and throws an Error with one sentence.
KernelSpec complete(const KernelSpec& spec, const Catalog& catalog);

}  // namespace jitstep::jit
