// Words for what a file declares.
#pragma once

#include <jitstep/jit/manifest.h>

#include <string>

namespace jitstep::tool {

/// The values an option takes: ">= 0", "true, false", "before, after".
std::string taken_by(const jit::Option& option);

/// The condition as it is written, or "always".
std::string written(const std::optional<jit::Expression>& condition);

/// Up to the first point that ends one: not that of "arXiv 1412.6980", nor of "torch.optim".
std::string first_sentence(const std::string& description);

}  // namespace jitstep::tool
