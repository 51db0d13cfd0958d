// The errors and warnings of jitstep. A message says what failed, why, and how to fix it.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Base of the errors of jitstep::jit, load_rule(), load_codec() and make_options(). Optimizers throw a c10::Error for
/// wrong arguments, and EngineError, a c10::Error, for compilers. They throw CompileError and CudaError unchanged.
struct JITSTEP_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A number of an option is out of its range. what() names the rule, the option, the number and the range.
class JITSTEP_API OptionError : public Error {
 public:
  /// `index`: position of the number among the option's numbers; 0 for an option with one number.
  OptionError(const std::string& message, std::string option, std::size_t index)
      : Error(message), option_(std::move(option)), index_(index) {}

  /// The name of the option, such as "betas".
  const std::string& option() const { return option_; }
  /// The position of the number, from 0.
  std::size_t index() const { return index_; }

 private:
  std::string option_;
  std::size_t index_;
};

/// The compiler did not do its work: it is not usable, did not finish in time, was killed, or lacked memory or disk
/// space. The source may be right. what() says how to fix it.
struct JITSTEP_API ToolchainError : public Error {
  using Error::Error;
};

/// A kernel for the CPU must be compiled, and there is no C++ compiler. what() says how to install or name one.
struct JITSTEP_API MissingCompilerError : public ToolchainError {
  using ToolchainError::ToolchainError;
};

/// The compiler rejected the source of a kernel. The first line of what() has the error and its location, if known. The
/// first errors of the log and the source lines that they name follow.
class JITSTEP_API CompileError : public Error {
 public:
  /// `message` is what() and should include the first errors and their source lines.
  CompileError(const std::string& message, std::string log, std::string source)
      : Error(message), log_(std::move(log)), source_(std::move(source)) {}

  /// The compiler's own output.
  const std::string& log() const { return log_; }
  /// The template source that the log names, with line numbers.
  const std::string& source() const { return source_; }

 private:
  std::string log_;
  std::string source_;
};

/// A call of the CUDA driver failed.
class JITSTEP_API CudaError : public Error {
 public:
  /// `message` is what(): the operation that failed and the driver's name of the code.
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

/// Log level. Default: `warn`.
enum class LogLevel { off, warn, info, debug };

/// Receives the text of one warning, without a line break: what failed, the consequence, and the fix.
using WarningHandler = std::function<void(const std::string&)>;

/// Sets the handler of warnings and returns the previous one. The default handler prints a line to stderr. An empty
/// handler restores the default. Thread safe.
///
/// Any thread may call the handler, also several threads at once. The handler may call jitstep, but must not request
/// kernels, and so must not step: its thread may be making the kernel that it requests. If the handler throws, jitstep
/// drops the exception and prints the warning to stderr.
JITSTEP_API WarningHandler set_warning_handler(WarningHandler handler);

}  // namespace jitstep::jit

namespace jitstep {
using jit::CompileError;
using jit::CudaError;
using jit::Error;
using jit::MissingCompilerError;
using jit::OptionError;
using jit::ToolchainError;
}  // namespace jitstep
