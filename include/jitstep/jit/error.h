// The errors of jitstep. A message says what was attempted, what came back and what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Base of every error jitstep throws itself (argument errors of the front end are torch's).
struct JITSTEP_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A kernel's text was refused by its compiler. what() holds in its first line what is wrong and where,
/// if that can be said; then the log and the lines it names.
class JITSTEP_API CompileError : public Error {
 public:
  /// `message` is what() and should hold the log and the lines it names.
  CompileError(const std::string& message, std::string log, std::string source)
      : Error(message), log_(std::move(log)), source_(std::move(source)) {}

  /// The compiler's own output.
  const std::string& log() const { return log_; }
  /// The numbered text of the template files that the log names.
  const std::string& source() const { return source_; }

 private:
  std::string log_;
  std::string source_;
};

/// A call of the CUDA driver failed.
class JITSTEP_API CudaError : public Error {
 public:
  /// `message` is what(): what was being done and the driver's own name of the code.
  CudaError(const std::string& message, std::string call, int code)
      : Error(message), call_(std::move(call)), code_(code) {}

  /// The driver function, such as "cuLaunchKernel".
  const std::string& call() const { return call_; }
  /// The driver's CUresult.
  int code() const { return code_; }

 private:
  std::string call_;
  int code_;
};

}  // namespace jitstep::jit

namespace jitstep {
using jit::CompileError;
using jit::CudaError;
using jit::Error;
}  // namespace jitstep
