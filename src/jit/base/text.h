// String concatenation for messages and short texts, because g++ 12 has no <format>.
#pragma once

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

}  // namespace jitstep::jit
