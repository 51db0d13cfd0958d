// The built-in templates. CMake generates the definition from templates/.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace jitstep::jit {

/// Name and content of every file in templates/, sorted by name.
std::span<const std::pair<std::string_view, std::string_view>> embedded_templates();

}  // namespace jitstep::jit
