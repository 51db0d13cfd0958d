// Every combination compiles for every architecture, and its default variant spills nothing. Needs
// NVRTC and no GPU.
#include <gtest/gtest.h>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/unit.h"
#include "support/combinations.h"

namespace jitstep::support {
namespace {

class GpuCompile : public testing::TestWithParam<int> {};

TEST_P(GpuCompile, EveryCombinationIsBuiltWithoutSpills) {
  const jit::Target target = jit::Target::cuda(GetParam());
  for (const auto& spec : ci_combinations()) {
    SCOPED_TRACE(to_string(spec));
    const jit::Unit unit = jit::unit(spec, jit::default_variant(spec, target), target);
    const auto built = jit::default_engine().build(unit.text, unit.name, target);
    EXPECT_EQ(built->binary.resources.size(), unit.entries.size());
    for (const auto& entry : built->binary.resources) {
      EXPECT_EQ(entry.spill_store_bytes + entry.spill_load_bytes, 0) << entry.entry;
      EXPECT_GT(entry.registers, 0) << entry.entry;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, GpuCompile, testing::Values(80, 89, 90, 100, 120),
                         [](const auto& sm) { return "sm_" + std::to_string(sm.param); });

}  // namespace
}  // namespace jitstep::support
