// Exact weight formats, for every float.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "templates/stored_weights.h"

namespace jitstep {
namespace {

template <class W>
class EveryFloat : public testing::Test {};
TYPED_TEST_SUITE(EveryFloat, ExactWeightFormats);

TYPED_TEST(EveryFloat, RoundTripsBitForBitAndNaNAsNaN) {
  std::uint64_t exact = 0, nan = 0;
  for (std::uint64_t u = 0; u < 1ull << 32; ++u) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(u)), y = back<TypeParam>(x);
    exact += std::bit_cast<std::uint32_t>(y) == static_cast<std::uint32_t>(u) && !std::isnan(x);
    nan += std::isnan(x) && std::isnan(y);
  }
  constexpr std::uint64_t kNaN = 2 * ((1ull << 23) - 1);
  EXPECT_EQ(exact, (1ull << 32) - kNaN);
  EXPECT_EQ(nan, kNaN);
}

}  // namespace
}  // namespace jitstep
