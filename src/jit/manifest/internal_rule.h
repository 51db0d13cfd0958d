// Rules that the library needs itself, beside those that are optimizers.
#pragma once

#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {

/// The options of a rule that is in no folder and no list: `members` of `struct Rule`, and `slots`, declarations of
/// `struct Slots` (none: empty). One name stands for one text.
JITSTEP_API OptionValues internal_rule(const std::string& name, const std::string& slots,
                                       const std::string& members);

/// Whether a rule of that name is one of these.
bool is_internal_rule(const std::string& name);

}  // namespace jitstep::jit
