// Other outputs of this machine's compilers than binaries.
#pragma once

#include <jit/compiler/loop_report.h>
#include <jitstep/jit/compiler.h>
#include <jitstep/jit/settings.h>
#include <jitstep/jit/target.h>

#include <memory>
#include <string>
#include <vector>

namespace jitstep::tool {

/// The compiler of a target. It may be missing: see Compiler::available.
std::unique_ptr<jit::Compiler> compiler_for(const jit::Target& target,
                                            const jit::Settings& settings);

/// Version, build and options of the compiler for a target, see Compiler::identity. Throws an Error if there is none.
std::string compiler_identity(const jit::Target& target,
                              const jit::Settings& settings = jit::Settings::from_environment());

/// Compiles preprocessed source to PTX, or to the host compiler's assembly with `.loc` lines. Throws an Error if there
/// is no compiler or the source does not compile.
std::string ptx_of(const std::string& preprocessed, const std::string& name,
                   const jit::Target& target);
std::string assembly_of(const std::string& preprocessed, const std::string& name,
                        const jit::Target& target);

/// The host compiler's report about the loops over elements.
struct LoopReport {
  std::vector<jit::ScalarLoop> scalar;  // loops that it did not vectorize
  std::string problem;                  // why there is no report; empty if there is one
};

/// assembly_of() for the CPU, with the report of the same compile in `loops`.
std::string assembly_of(const std::string& preprocessed, const std::string& name,
                        LoopReport& loops);

/// Compiles the source for its report. Throws no Error, because some compilers give no report.
LoopReport loop_report_of(const std::string& preprocessed, const std::string& name,
                          const jit::Settings& settings);

}  // namespace jitstep::tool
