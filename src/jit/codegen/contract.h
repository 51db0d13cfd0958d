// What a unit asks of the compiler about the rule and codecs it is made of: templates/README.md, held by
// templates/kernel/contract_check.cuh.
#pragma once

#include <string>

#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// The namespace of a template file's declarations, such as "jitstep::rules::adamw::".
std::string namespace_of(const Manifest& manifest);

/// The assertions, to follow `UnitSpec`. An assertion about a codec names its file.
std::string contract_text(const Plan& plan);

}  // namespace jitstep::jit
