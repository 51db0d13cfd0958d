// The generated options classes. The generated rules.cpp defines the function.
#pragma once

#include <memory>
#include <string>

#include "jitstep/options.h"

namespace jitstep {

/// The generated options class of a built-in rule, or null.
std::unique_ptr<Options> make_shipped_options(const std::string& rule);

}  // namespace jitstep
