// The reason of a failure, for functions that report it instead of throwing.
#pragma once

#include <optional>
#include <string>

namespace jitstep::jit {

/// Why something failed, or why it must not be used, as a sentence for messages. Nothing if there is no problem.
using Problem = std::optional<std::string>;

}  // namespace jitstep::jit
