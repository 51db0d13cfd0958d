// The oldest architecture and the one that most of the tests on a GPU run on.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(80, 90);

// A twelfth of the cover for each of the two; gpu_compile_long_test.cpp compiles it all.
TEST_P(GpuCompile, ASampleOfTheCoverKeepsEverythingInRegisters) {
  const std::uint32_t part = GetParam() == 80 ? 0 : 1;
  expect_cover_in_registers([&](std::uint32_t hash) { return hash % 12 == part; },
                            jit::Target::cuda(GetParam()));
}

}  // namespace
}  // namespace jitstep::support
