#include "jit/compiler/loop_reporter.h"

#include "jit/compiler/loop_report.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

Binary LoopReporter::compile(const std::string& text, const std::string& name,
                             const Target& target) {
  if (target.kind != Target::Kind::cpu) return HostCompiler::compile(text, name, target);
  try {
    std::string report;
    Binary binary = compile(text, name, target, &report);
    binary.log += log_of(scalar_loops(text, report), text);
    return binary;
  } catch (const Error&) {
    if (can_report()) throw;
    return HostCompiler::compile(text, name, target);
  }
}

// Compiles an empty source.
bool LoopReporter::can_report() {
  try {
    loop_report("", "empty", Target::cpu());
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace jitstep::jit
