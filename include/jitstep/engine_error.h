// What the front end throws where the engine below it failed.
#pragma once

#include <c10/util/Exception.h>

#include <exception>

#include "jitstep/jit/error.h"
#include "jitstep/jit/export.h"

namespace jitstep {

/// A c10::Error, as torch's own errors are, with the jit::Error that caused it: std::rethrow_if_nested(error) throws
/// that one. It says that a compiler is missing, that an argument is wrong, or the like. A kernel's text that does not
/// compile is a CompileError and a failed call of the CUDA driver a CudaError: neither is a c10::Error.
class JITSTEP_API EngineError : public c10::Error, public std::nested_exception {
 public:
  /// To be made where the cause is being handled.
  EngineError(c10::SourceLocation where, const jit::Error& cause) : Error(where, cause.what()) {}
};

}  // namespace jitstep
