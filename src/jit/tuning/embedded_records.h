// The tuning records built into the library. CMake generates the definition from tuning/records/.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace jitstep::jit {

/// Path relative to tuning/ and text of each file in tuning/records/.
std::span<const std::pair<std::string_view, std::string_view>> embedded_records();

}  // namespace jitstep::jit
