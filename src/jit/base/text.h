// String concatenation for messages and short texts, because g++ 12 has no <format>.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

namespace jitstep::jit {

/// Concatenates its arguments, each printed by operator<< in the C locale: cache keys and kernel sources consist of
/// such strings and must not depend on the program's locale.
template <class... Parts>
std::string str_cat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return std::move(out).str();
}

/// "1 kernel" or "2 kernels". `several` is an irregular plural, as in "2 entries".
template <class Count>
std::string counted(const Count& count, std::string_view one, std::string_view several = "") {
  if (count == 1) return str_cat(count, " ", one);
  return several.empty() ? str_cat(count, " ", one, "s") : str_cat(count, " ", several);
}

/// Joins the elements: "a, b, c". `name` converts an element to text.
template <class Words, class Name = std::identity>
std::string joined(const Words& words, std::string_view between = ", ", Name name = {}) {
  std::string out;
  bool first = true;
  for (const auto& word : words) {
    if (!first) out += between;
    out += std::invoke(name, word);
    first = false;
  }
  return out;
}

/// True for the second and later bytes of a character in UTF-8.
constexpr bool continues_character(char byte) { return (byte & 0xC0) == 0x80; }

/// At most this many bytes from the start, or from the end, of the text. No character of UTF-8 is cut.
inline std::string_view first_bytes(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && continues_character(text[most])) --most;
  return text.substr(0, most);
}
inline std::string_view last_bytes(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t begin = text.size() - most;
  while (begin < text.size() && continues_character(text[begin])) ++begin;
  return text.substr(begin);
}

/// The text. A longer one than `longest` bytes ends in "...".
inline std::string abbreviated(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  return std::string(first_bytes(text, longest - 3)) + "...";
}

}  // namespace jitstep::jit
