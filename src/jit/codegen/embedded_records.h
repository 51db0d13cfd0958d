// The tuning records built into the library. The definitions are generated from tuning/ by CMake.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace jitstep::jit {

/// Name and text of every file of tuning/records/, by its path from tuning/, after the schema.
std::span<const std::pair<std::string_view, std::string_view>> embedded_records();

}  // namespace jitstep::jit
