// Whether a rule sets what it must and reads only what is there, seen by running it.
#pragma once

#include "jitstep/jit/engine.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Runs one step of the plan's rule on the CPU, on a single element, with everything that the rule has not
/// set poisoned. Throws an Error that names the rule, the function and the field. The engine's settings
/// have `check`, so that variables are poisoned too.
void check_rule_contract(const Plan& plan, Engine& engine);

}  // namespace jitstep::jit
