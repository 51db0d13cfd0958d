// The version of jitstep, which CMake reads from here; 0.x follows semantic versioning.
#pragma once

#include "jitstep/jit/export.h"

/// The version of these headers, in parts and as text.
#define JITSTEP_VERSION_MAJOR 0
#define JITSTEP_VERSION_MINOR 1
#define JITSTEP_VERSION_PATCH 0
#define JITSTEP_VERSION "0.1.0"

namespace jitstep {

/// The version of the library that is loaded; JITSTEP_VERSION is that of the header compiled with.
JITSTEP_API const char* version() noexcept;

}  // namespace jitstep
