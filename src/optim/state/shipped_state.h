// The generated state classes. The generated rules.cpp defines the function.
#pragma once

#include <memory>
#include <string>

#include "jitstep/param_state.h"

namespace jitstep {

/// The generated state class of a built-in rule, or null.
std::unique_ptr<ParamState> make_shipped_state(const std::string& rule);

}  // namespace jitstep
