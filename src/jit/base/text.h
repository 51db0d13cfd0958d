// One fold helper for messages and small texts: g++ 12 has no <format>.
#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace jitstep::jit {

/// Joins its parts, each printed with operator<<, whatever the program's locale: keys and the
/// texts of kernels are made of such texts.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace jitstep::jit
