// The compilers of this machine, asked for more than a binary.
#pragma once

#include <jit/compiler/loop_report.h>
#include <jitstep/jit/settings.h>
#include <jitstep/jit/target.h>

#include <string>
#include <vector>

namespace jitstep::tool {

/// Version, build and options of the compiler for a target: Compiler::identity. An Error if there is none.
std::string compiler_identity(const jit::Target& target,
                              const jit::Settings& settings = jit::Settings::from_environment());

/// A self-contained text as PTX, or as the host compiler's assembly with `.loc` lines. An Error if there is no compiler
/// or the text does not compile.
std::string ptx_of(const std::string& preprocessed, const std::string& name,
                   const jit::Target& target);
std::string assembly_of(const std::string& preprocessed, const std::string& name,
                        const jit::Target& target);

/// What the host compiler says of the loops over elements.
struct LoopReport {
  std::vector<jit::ScalarLoop> scalar;  // of which it makes no vectors
  std::string problem;                  // why it gave no report; empty if it did
};

/// Compiles the text. Throws no Error: some compilers cannot report.
LoopReport loop_report_of(const std::string& preprocessed, const std::string& name,
                          const jit::Settings& settings);

}  // namespace jitstep::tool
