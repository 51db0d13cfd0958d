// Checks by execution that a rule sets all values that it must set, and reads only values that are set.
#pragma once

#include "jitstep/jit/engine.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Runs the plan's rule on the CPU, on a single element, with poison in all values that the rule has not set. Throws an
/// Error that names the rule, the function and the field. The engine's settings must have `check`, which also poisons
/// local variables.
void check_rule_contract(const Plan& plan, Engine& engine);

}  // namespace jitstep::jit
