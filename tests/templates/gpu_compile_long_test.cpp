// All architectures but that of gpu_compile_test.cpp.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(80, 89, 100, 120);

class CoveringSetGpuCompile : public testing::TestWithParam<int> {};

TEST_P(CoveringSetGpuCompile, TheCoveringSetUsesRegistersOnly) {
  std::vector<jit::KernelSpec> specs;
  for (const StepCase& c : covering_cases()) specs.push_back(jit::resolve(kernel_of(c).spec).spec);
  expect_registers_only(specs, jit::Target::cuda(GetParam()));
}

TEST_P(CoveringSetGpuCompile, EveryBlockSizeOfEveryCodecUsesRegistersOnly) {
  expect_registers_only(every_block_from(32), jit::Target::cuda(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Architectures, CoveringSetGpuCompile,
                         testing::Values(80, 89, 90, 100, 120),
                         [](const auto& sm) { return "sm_" + std::to_string(sm.param); });

}  // namespace
}  // namespace jitstep::support
