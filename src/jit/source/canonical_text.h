// Source text reduced to its tokens, so that a changed comment or line break does not recompile a kernel.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// The tokens of a C++ text, without comments, `#line` markers and unnecessary blanks. Equal results mean equal code. A
/// text with `__LINE__` or `__FILE__` is returned unchanged.
std::string canonical_text(std::string_view text);

}  // namespace jitstep::jit
