// The full product: every rule with every value of its flags in every codec gives the same bits on the CPU and under
// emulation.
#include <gtest/gtest.h>

#include "support/bit_cases.h"
#include "support/bits.h"
#include "support/combinations.h"

namespace jitstep::support {
namespace {

class ProductBits : public testing::TestWithParam<BitCase> {};

TEST_P(ProductBits, AreTheSameUnderEmulation) {
  for (const StepCase& c : GetParam().make()) {
    SCOPED_TRACE(to_string(kernel_of(c).spec));
    expect_same_bits(c, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(CoveringSet, ProductBits, testing::ValuesIn(by_rule(covering_cases)),
                         kCaseName);
INSTANTIATE_TEST_SUITE_P(Of, ProductBits, testing::ValuesIn(by_rule(all_cases)), kCaseName);
INSTANTIATE_TEST_SUITE_P(Extensions, ProductBits, testing::ValuesIn(large_bit_cases()), kCaseName);

}  // namespace
}  // namespace jitstep::support
