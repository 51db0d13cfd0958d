// The other architectures.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(89, 100, 120);

class CoverGpuCompile : public testing::TestWithParam<int> {};

TEST_P(CoverGpuCompile, TheCoverKeepsEverythingInRegisters) {
  expect_cover_in_registers([](std::uint32_t) { return true; }, jit::Target::cuda(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Architectures, CoverGpuCompile, testing::Values(80, 89, 90, 100, 120),
                         [](const auto& sm) { return "sm_" + std::to_string(sm.param); });

}  // namespace
}  // namespace jitstep::support
