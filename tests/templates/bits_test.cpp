// The GPU kernels under emulation and the CPU kernels give the same bits for every division of the work.
#include <gtest/gtest.h>

#include "jitstep/jit/engine.h"
#include "support/bit_cases.h"
#include "support/bits.h"
#include "support/combinations.h"

namespace jitstep::support {
namespace {

class Bits : public testing::TestWithParam<BitCase> {};

TEST_P(Bits, AreTheSameUnderEmulation) {
  for (const StepCase& c : GetParam().make()) {
    SCOPED_TRACE(to_string(kernel_of(c).spec));
    expect_same_bits(c, GetParam().ways);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bits, testing::ValuesIn(bit_cases()), kCaseName);
INSTANTIATE_TEST_SUITE_P(Extensions, Bits, testing::ValuesIn(extension_bit_cases()), kCaseName);
INSTANTIATE_TEST_SUITE_P(LargeExtensions, Bits,
                         testing::ValuesIn(large_bit_cases(Selection::sample)), kCaseName);

// AdamW, with which the covering set combines every codec and weight format, and every second of the other rules.
// bits_long_test.cpp has all.
std::vector<BitCase> some_of_the_covering_set() {
  std::vector<BitCase> some = by_rule(covering_cases, 6);
  std::size_t index = 0;
  std::erase_if(some, [&](const BitCase& c) { return index++ % 2 == 1 && c.name != "adamw"; });
  return some;
}

// The covering set combines rules, codecs, dtypes and flag values.
INSTANTIATE_TEST_SUITE_P(CoveringSet, Bits, testing::ValuesIn(some_of_the_covering_set()),
                         kCaseName);

// Tests the comparison itself: it must detect one different bit of a gradient.
TEST(BitComparison, ADifferentSeedIsADifferentOutcome) {
  StepCase c{.spec = spec_of("adamw", "int8"), .options = {}, .tensors = {{.sizes = {300}}}};
  jit::CpuBackend cpu(jit::default_engine(),
                      [](std::int64_t n, std::int64_t, const auto& body) { body(0, n); });
  const KernelConfig config = jit::default_kernel_config(kernel_of(c), jit::Target::cpu());
  const StepOutcome one = run_case(c, cpu, config);
  c.seed = 8;
  EXPECT_FALSE(differences(one, run_case(c, cpu, config)).empty());
}

}  // namespace
}  // namespace jitstep::support
