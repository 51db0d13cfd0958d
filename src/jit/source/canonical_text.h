// A text as a compiler's lexer sees it, so that a comment or a line break recompiles nothing.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// The tokens of a C++ text: without comments, `#line` markers and blanks that separate no tokens.
/// Equal results mean equal code. A text that asks for its own lines (`__LINE__`, `__FILE__`)
/// is returned as it is.
std::string canonical_text(std::string_view text);

}  // namespace jitstep::jit
