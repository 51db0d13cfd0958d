// The combinations that every change is checked with, made from what the templates folder holds.
#pragma once

#include <vector>

#include "jitstep/jit/spec.h"

namespace jitstep::support {

/// Every rule with fp32 state and weights; every codec with adamw and with lamb; every weight format
/// and dtype with adamw. No two are the same kernel.
std::vector<jit::KernelSpec> ci_combinations();

}  // namespace jitstep::support
