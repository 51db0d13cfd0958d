// One fold helper for messages and small texts: g++ 12 has no <format>.
#pragma once

#include <sstream>
#include <string>

namespace jitstep::jit {

/// Joins its parts, each printed with operator<<.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace jitstep::jit
