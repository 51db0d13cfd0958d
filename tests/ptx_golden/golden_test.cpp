// Evenly chosen recorded trajectories. golden_long_test.cpp runs the others.
#include "ptx_golden/recorded.h"

namespace jitstep::tests {
namespace {

std::vector<std::string> some_cases() {
  constexpr std::size_t kEach = 8;
  const auto all = followed_cases();
  std::vector<std::string> some;
  for (std::size_t k = 0; k < all.size(); k += kEach) some.push_back(all[k]);
  return some;
}

TEST_P(PtxGolden, IsReproducedByNvrtcsPtx) { follow(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Some, PtxGolden, testing::ValuesIn(some_cases()),
                         [](const auto& name) { return name.param; });

// All but those with 16-bit parameters, a host transform or inputs. A new recorded case changes the number.
TEST(PtxGoldenCases, CoverMostTrajectories) { EXPECT_EQ(followed_cases().size(), 155u); }

}  // namespace
}  // namespace jitstep::tests
