// Every kernel that the GPU tests launch compiles and fits. Needs NVRTC but no GPU.
#include <gtest/gtest.h>

#include "jit/codegen/unit.h"
#include "jitstep/jit/engine.h"
#include "support/bit_cases.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

// An H100 or H200 can launch every kernel of the GPU tests: it has enough registers and shared memory for a block.
class GpuWays : public testing::TestWithParam<BitCase> {};

TEST_P(GpuWays, FitOnAMultiprocessor) {
  constexpr int kRegisters = 65536, kRegistersOfAThread = 255, kSharedBytes = 48 << 10;
  const jit::Target target = jit::Target::cuda(90);
  for (const StepCase& c : GetParam().make()) {
    const jit::Plan plan = kernel_of(c);
    for (const GpuWay& way : gpu_ways(plan)) {
      SCOPED_TRACE(to_string(plan.spec) + ", " + way.name);
      const jit::Unit unit = jit::unit(plan, way.config, target);
      const auto built = jit::default_engine().build(unit.text, unit.name, target);
      for (const auto& entry : built->binary.resources) {
        EXPECT_LE(entry.registers * way.config.threads, kRegisters) << entry.entry;
        EXPECT_LE(entry.registers, kRegistersOfAThread) << entry.entry;
        EXPECT_LE(entry.shared_bytes, kSharedBytes) << entry.entry;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sm90, GpuWays, testing::ValuesIn(bit_cases()), kCaseName);
INSTANTIATE_TEST_SUITE_P(Sm90Extensions, GpuWays, testing::ValuesIn(extension_bit_cases()),
                         kCaseName);
INSTANTIATE_TEST_SUITE_P(Sm90LargeExtensions, GpuWays, testing::ValuesIn(large_bit_cases()),
                         kCaseName);

}  // namespace
}  // namespace jitstep::support
