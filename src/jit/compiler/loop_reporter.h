// A host compiler that logs the loops that it does not vectorize.
#pragma once

#include "jit/compiler/host_compiler.h"

namespace jitstep::jit {

/// A HostCompiler with the same binaries and identity. For the CPU, it adds log_of() the marked loops of the source to
/// the log. Binaries in a cache may come from a compiler that added nothing.
class LoopReporter : public HostCompiler {
 public:
  using HostCompiler::compile;
  using HostCompiler::HostCompiler;

  /// Adds nothing if the compiler cannot report loops.
  Binary compile(const std::string& text, const std::string& name, const Target& target) override;

 private:
  bool can_report();
};

}  // namespace jitstep::jit
