// Generates the static_asserts that check a rule and its codecs against docs/extending/reference.md.
// templates/kernel/check/contract_check.cuh defines the checks.
#pragma once

#include <string>

#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// The assertions. They must come after the definition of `UnitSpec`. An assertion about a codec names its file.
std::string contract_text(const Plan& plan);

}  // namespace jitstep::jit
