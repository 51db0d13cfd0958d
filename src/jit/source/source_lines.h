// Lines and preprocessor directives of a text.
#pragma once

#include <algorithm>
#include <string_view>

namespace jitstep::jit {

/// Removes the first line from `rest` and returns it.
inline std::string_view next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// The line without leading blanks.
inline std::string_view without_indent(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
}

/// The rest of a directive line after `#word`. Null data for other lines.
inline std::string_view directive(std::string_view line, std::string_view word) {
  line = without_indent(line);
  if (!line.starts_with('#')) return {};
  line = without_indent(line.substr(1));
  if (!line.starts_with(word)) return {};
  return without_indent(line.substr(word.size()));
}

}  // namespace jitstep::jit
