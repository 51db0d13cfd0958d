#include "jit/source/comments.h"

#include <algorithm>
#include <cctype>

namespace jitstep::jit {

std::size_t after_literal(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] != '\n')
      ++at;
    else if (text[at] == quote)
      return at + 1;
  }
  return at;
}

bool begins_literal(std::string_view text, std::size_t at) {
  const auto in_number = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return text[at] == '"' || (text[at] == '\'' && (at == 0 || !in_number(text[at - 1])));
}

std::string without_block_comments(std::string_view text) {
  std::string out(text);
  if (text.find("/*") == std::string_view::npos) return out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (begins_literal(text, at)) {
      at = after_literal(text, at);
    } else if (text.substr(at).starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at).starts_with("/*")) {
      const std::size_t close = text.find("*/", at + 2);
      const std::size_t end = close == std::string_view::npos ? text.size() : close + 2;
      for (; at < end; ++at) {
        if (out[at] != '\n') out[at] = ' ';
      }
    } else {
      ++at;
    }
  }
  return out;
}

}  // namespace jitstep::jit
