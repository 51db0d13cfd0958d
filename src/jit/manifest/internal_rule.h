// Rules that the library uses internally and that are no optimizers.
#pragma once

#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {

/// The options of an internal rule, which Catalog::names() does not list. `members`: the members of `struct Rule`.
/// `slots`: the declarations of `struct Slots`, empty for a rule without slots. Use each name with one text only.
JITSTEP_API OptionValues internal_rule(const std::string& name, const std::string& slots,
                                       const std::string& members);

/// Whether the name belongs to an internal rule.
bool is_internal_rule(const std::string& name);

}  // namespace jitstep::jit
