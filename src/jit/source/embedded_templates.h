// The templates built into the library. The definition is generated from templates/ by CMake.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace jitstep::jit {

/// Name and text of every file below templates/, sorted by name.
std::span<const std::pair<std::string_view, std::string_view>> embedded_templates();

}  // namespace jitstep::jit
