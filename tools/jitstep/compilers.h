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
std::string ptx_of(const std::string& flat, const std::string& name, const jit::Target& target);
std::string assembly_of(const std::string& flat, const std::string& name,
                        const jit::Target& target);

/// The loops over elements of which the host compiler makes no vectors; compiles the text. An Error as above.
std::vector<jit::ScalarLoop> scalar_loops_of(const std::string& flat, const std::string& name,
                                             const jit::Settings& settings);

}  // namespace jitstep::tool
