// The parts of an engine that modules above it use directly.
#pragma once

#include "jitstep/jit/engine.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The CUDA driver of an engine. Throws an Error with installation advice if there is none.
JITSTEP_API CudaDriver& driver_of(Engine& engine);

/// The compiler that an engine uses for a target.
Compiler& compiler_of(Engine& engine, const Target& target);

}  // namespace jitstep::jit
