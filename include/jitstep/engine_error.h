// The exception that the front end throws if the engine fails.
#pragma once

#include <c10/util/Exception.h>

#include <exception>

#include "jitstep/jit/error.h"
#include "jitstep/jit/export.h"

namespace jitstep {

/// A c10::Error, as torch's own errors are. It nests the jit::Error that caused it: std::rethrow_if_nested(error)
/// throws that one. Causes are missing compilers, wrong arguments and the like. Two errors are not c10::Errors:
/// CompileError, if the source of a kernel does not compile, and CudaError, if a call of the CUDA driver fails.
class JITSTEP_API EngineError : public c10::Error, public std::nested_exception {
 public:
  /// Construct it only inside the handler that caught `cause`.
  EngineError(c10::SourceLocation where, const jit::Error& cause) : Error(where, cause.what()) {}
};

}  // namespace jitstep
