// The version of jitstep. CMake reads it from here. Versions 0.x follow semantic versioning.
#pragma once

#include "jitstep/jit/export.h"

/// The version of these headers, as numbers and as text.
#define JITSTEP_VERSION_MAJOR 0
#define JITSTEP_VERSION_MINOR 1
#define JITSTEP_VERSION_PATCH 0
#define JITSTEP_VERSION "0.1.0"

namespace jitstep {

/// The version of the loaded library. JITSTEP_VERSION is the version of the headers.
JITSTEP_API const char* version() noexcept;

}  // namespace jitstep
