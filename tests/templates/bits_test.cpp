// The GPU kernels under emulation and the CPU kernels give the same bits for every division of the work.
#include <gtest/gtest.h>

#include <set>

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

// AdamW, with which the covering set combines every codec and weight format. bits_long_test.cpp has the other rules, and
// test extensions in every codec.
std::vector<BitCase> adamw_in_the_covering_set() {
  std::vector<BitCase> cases = by_rule(covering_cases, 6);
  std::erase_if(cases, [](const BitCase& c) { return c.name != "adamw"; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(CoveringSet, Bits, testing::ValuesIn(adamw_in_the_covering_set()),
                         kCaseName);

// Tests the comparison itself: it must find one different bit, in the last element of any buffer.
TEST(BitComparison, OneDifferentBitIsADifferentOutcome) {
  const StepCase c{.spec = spec_of("adamw", "int8"), .options = {}, .tensors = {{.sizes = {300}}}};
  jit::CpuBackend cpu(jit::default_engine(),
                      [](std::int64_t n, std::int64_t, const auto& body) { body(0, n); });
  const KernelConfig config = jit::default_kernel_config(kernel_of(c), jit::Target::cpu());
  const StepOutcome one = run_case(c, cpu, config);
  EXPECT_TRUE(differences(one, run_case(c, cpu, config)).empty());
  std::set<std::string> names;
  for (std::size_t i = 0; i < one.size(); ++i) {
    StepOutcome other = one;
    const auto width = static_cast<std::size_t>(one[i].width);
    const std::size_t inside = one[i].bytes.size() - 2 * StoredBuffer::kGuard;
    if (inside == 0) continue;
    other[i].bytes[StoredBuffer::kGuard + inside - width] ^= std::byte{1};
    const std::vector<Difference> found = differences(one, other);
    ASSERT_EQ(found.size(), 1u) << one[i].name;
    EXPECT_EQ(found[0].name, one[i].name);
    EXPECT_EQ(found[0].element, static_cast<std::int64_t>(inside / width) - 1) << found[0];
    EXPECT_FALSE(found[0].outside) << found[0];
    names.insert(one[i].name);
  }
  for (const char* name : {"p", "m.codes", "m.meta", "v.codes", "v.meta"})
    EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace jitstep::support
