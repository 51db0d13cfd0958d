// Texts for the declarations of a file.
#pragma once

#include <jitstep/jit/manifest.h>

#include <string>

namespace jitstep::tool {

/// The valid values of an option: ">= 0", "true, false", "before, after".
std::string range_of(const jit::Option& option);

/// The text of the condition, or "always".
std::string written(const std::optional<jit::Expression>& condition);

/// The first sentence. A period ends it only before a space or at the end, not in "arXiv 1412.6980" or "torch.optim".
std::string first_sentence(const std::string& description);

}  // namespace jitstep::tool
