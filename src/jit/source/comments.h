// Literals and comments in a line or text of C++.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace jitstep::jit {

/// Whether a literal starts at `at`. The apostrophe in 1'000 is a digit separator.
bool begins_literal(std::string_view text, std::size_t at);

/// The position after the literal that starts at `at`. A literal never spans lines.
std::size_t after_literal(std::string_view text, std::size_t at);

/// Replaces /* */ comments by spaces. Line ends stay, so that line numbers stay.
std::string without_block_comments(std::string_view text);

}  // namespace jitstep::jit
