// Every combination, the covering set and every block size use registers only on every architecture.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

class GpuCompile : public testing::TestWithParam<int> {};

TEST_P(GpuCompile, EveryCombinationUsesRegistersOnly) {
  expect_registers_only(ci_combinations(), jit::Target::cuda(GetParam()));
}

TEST_P(GpuCompile, TheTestExtensionsUseRegistersOnly) {
  expect_registers_only_of_extensions(jit::Target::cuda(GetParam()));
}

TEST_P(GpuCompile, TheCoveringSetUsesRegistersOnly) {
  std::vector<jit::KernelSpec> specs;
  for (const StepCase& c : covering_cases()) specs.push_back(jit::resolve(kernel_of(c).spec).spec);
  expect_registers_only(specs, jit::Target::cuda(GetParam()));
}

TEST_P(GpuCompile, EveryBlockSizeOfEveryCodecUsesRegistersOnly) {
  expect_registers_only(every_block_from(32), jit::Target::cuda(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Architectures, GpuCompile, testing::Values(80, 89, 90, 100, 120),
                         [](const auto& sm) { return "sm_" + std::to_string(sm.param); });

}  // namespace
}  // namespace jitstep::support
