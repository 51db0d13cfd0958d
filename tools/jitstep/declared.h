// Words for what a file declares.
#pragma once

#include <jitstep/jit/manifest.h>

#include <string>

namespace jitstep::tool {

/// The values an option takes: ">= 0", "true, false", "before, after".
std::string taken_by(const jit::Option& option);

/// The condition as it is written, or "always".
std::string written(const std::optional<jit::Expression>& condition);

}  // namespace jitstep::tool
