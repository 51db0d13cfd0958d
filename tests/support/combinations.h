// The combinations that every change is checked with, made from what the templates folder holds.
#pragma once

#include <vector>

#include "emulation/option_cover.h"
#include "jitstep/jit/spec.h"

namespace jitstep::support {

/// Every rule with fp32 state and weights; every codec with adamw and with lamb; every weight format
/// and dtype with adamw. No two are the same kernel.
std::vector<jit::KernelSpec> ci_combinations();

/// Options of a rule under which it keeps as many slots as it can, its defaults if they do.
emulation::RuleOptions fullest_options(const std::string& rule);

}  // namespace jitstep::support
