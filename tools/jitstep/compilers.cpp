#include "compilers.h"

#include <cstdlib>

#include <jit/compiler/host_compiler.h>
#include <jit/compiler/nvrtc_compiler.h>
#include <jit/engine/cuda_driver.h>

#include "command.h"

namespace jitstep::tool {

using namespace jitstep::jit;

static NvrtcCompiler nvrtc_with(const Settings& settings) {
  return NvrtcCompiler(settings, [] { return installed_driver_version(); });
}

void use_native_kernels() { ::setenv("JITSTEP_CPU", "native", 0); }

std::string compiler_identity(const Target& target, const Settings& settings) {
  return target.is_cuda() ? nvrtc_with(settings).identity(target)
                          : HostCompiler(settings).identity(target);
}

std::string ptx_of(const std::string& flat, const std::string& name, const Target& target) {
  return nvrtc_with(Settings::from_environment()).ptx(flat, name, target);
}

std::string assembly_of(const std::string& flat, const std::string& name, const Target& target) {
  return HostCompiler(Settings::from_environment()).assembly(flat, name, target);
}

std::vector<ScalarLoop> scalar_loops_of(const std::string& flat, const std::string& name,
                                        const Settings& settings) {
  return scalar_loops(flat, HostCompiler(settings).loop_report(flat, name, Target::cpu()));
}

}  // namespace jitstep::tool
