// Classifies failures of the host compiler: source errors, lack of resources, timeout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/base/process.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// The compiler crashed or did not finish in time. With the same source, it may do so again.
struct JITSTEP_API CompilerFault : public ToolchainError {
  using ToolchainError::ToolchainError;
};

/// Throws a CompileError if the source is wrong, or a ToolchainError with advice if the machine lacks resources.
/// `folder` is the compiler's work folder.
[[noreturn]] void throw_compile_failure(const std::string& source, const std::string& name,
                                        const Target& target, const Finished& run,
                                        const std::string& folder);

/// Throws a ToolchainError if a signal ended the compiler: a CompilerFault if that was a crash. `doing` completes the
/// message: "while compiling step_adamw".
void throw_if_killed(const Finished& run, const std::string& doing);

/// Throws the CompilerFault for a compiler that was killed after this time.
[[noreturn]] void throw_timeout(const std::vector<std::string>& words, std::int64_t seconds,
                                const Finished& run);

}  // namespace jitstep::jit
