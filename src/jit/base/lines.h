// Lines of a text.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// The text without what follows its first line, such as the compiler's log in an error's message.
inline std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace jitstep::jit
