// Every kernel that the tests on a GPU launch compiles and fits. Needs NVRTC and no GPU.
#include <gtest/gtest.h>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/unit.h"
#include "support/bit_cases.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

// Whatever the tests that need a GPU launch can be launched on an H100 or H200: the registers and
// the shared memory of a block are there.
class GpuWays : public testing::TestWithParam<BitCase> {};

TEST_P(GpuWays, FitIntoAMultiprocessor) {
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
INSTANTIATE_TEST_SUITE_P(Sm90LargeExtensions, GpuWays,
                         testing::ValuesIn(large_bit_cases(Share::whole)), kCaseName);

}  // namespace
}  // namespace jitstep::support
