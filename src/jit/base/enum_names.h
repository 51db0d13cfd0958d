// Names of enumeration values, in order of declaration.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace jitstep::jit {

/// The name of a value.
template <class Enum, std::size_t N>
std::string name_in(const std::array<const char*, N>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

/// The value with this name, or nothing for an unknown name.
template <class Enum, std::size_t N>
std::optional<Enum> value_in(const std::array<const char*, N>& names, std::string_view word) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) return {};
  return static_cast<Enum>(found - names.begin());
}

}  // namespace jitstep::jit
