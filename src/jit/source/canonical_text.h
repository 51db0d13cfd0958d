// Source text reduced to its tokens, so that a changed comment or line break does not recompile a kernel.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// The tokens of a C++ text, without comments, `#line` markers and unnecessary blanks. Equal results mean equal code. A
/// text is returned unchanged if it may depend on its layout: it contains `_LINE`, `_COLUMN`, `_FILE`,
/// `source_location`, a raw string literal, or blanks after a backslash at the end of a line.
std::string canonical_text(std::string_view text);

}  // namespace jitstep::jit
