// One fold helper for messages and small texts: g++ 12 has no <format>.
#pragma once

#include <functional>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

namespace jitstep::jit {

/// Joins its parts, each printed with operator<<, whatever the program's locale: keys and the
/// texts of kernels are made of such texts.
template <class... Parts>
std::string str_cat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return std::move(out).str();
}

/// The words with `between` between each two: "a, b, c". `name` makes a word of an element.
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
