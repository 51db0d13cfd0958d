// The architecture that GPU tests run on, and all formats of AdamW for the oldest one. gpu_compile_long_test.cpp compiles
// all combinations and the covering set for every architecture.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(90);

TEST(GpuCompileForSm80, OfAdamwInEveryFormatUsesRegistersOnly) {
  std::vector<jit::KernelSpec> specs = ci_combinations();
  std::erase_if(specs, [](const jit::KernelSpec& spec) { return spec.rule != "adamw"; });
  EXPECT_GE(specs.size(), 20u);
  expect_registers_only(specs, jit::Target::cuda(80));
}

}  // namespace
}  // namespace jitstep::support
