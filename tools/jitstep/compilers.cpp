#include "compilers.h"

#include <jit/base/lines.h>
#include <jit/base/text.h>
#include <jit/compiler/host_compiler.h>
#include <jit/compiler/nvrtc_compiler.h>
#include <jit/engine/cuda_driver.h>
#include <jitstep/jit/error.h>

namespace jitstep::tool {

using namespace jitstep::jit;

static std::unique_ptr<NvrtcCompiler> nvrtc_with(const Settings& settings) {
  return std::make_unique<NvrtcCompiler>(settings, [] { return installed_driver_version(); });
}

std::unique_ptr<Compiler> compiler_for(const Target& target, const Settings& settings) {
  if (target.is_cuda()) return nvrtc_with(settings);
  return std::make_unique<HostCompiler>(settings);
}

std::string compiler_identity(const Target& target, const Settings& settings) {
  return compiler_for(target, settings)->identity(target);
}

std::string ptx_of(const std::string& preprocessed, const std::string& name, const Target& target) {
  return nvrtc_with(Settings::from_environment())->ptx(preprocessed, name, target);
}

std::string assembly_of(const std::string& preprocessed, const std::string& name,
                        const Target& target) {
  return HostCompiler(Settings::from_environment()).assembly(preprocessed, name, target);
}

// Calls `report`, which returns a compiler's report on loops of the source. Throws no Error.
template <class Report>
static LoopReport loops_of(const std::string& preprocessed, const Report& report) {
  try {
    return {scalar_loops(preprocessed, report()), ""};
  } catch (const Error& error) {
    return {{},
            str_cat("the compiler gave no report of vectorized loops: ", first_line(error.what()))};
  }
}

std::string assembly_of(const std::string& preprocessed, const std::string& name,
                        LoopReport& loops) {
  std::string assembly;
  loops = loops_of(preprocessed, [&] {
    std::string report;
    assembly = HostCompiler(Settings::from_environment())
                   .assembly(preprocessed, name, Target::cpu(), &report);
    return report;
  });
  return loops.problem.empty() ? assembly : assembly_of(preprocessed, name, Target::cpu());
}

LoopReport loop_report_of(const std::string& preprocessed, const std::string& name,
                          const Settings& settings) {
  return loops_of(preprocessed, [&] {
    return HostCompiler(settings).loop_report(preprocessed, name, Target::cpu());
  });
}

}  // namespace jitstep::tool
