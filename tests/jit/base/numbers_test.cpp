#include "jit/base/numbers.h"

#include <gtest/gtest.h>

#include <limits>

namespace jitstep::jit {
namespace {

TEST(Numbers, NaNIsTheSameNumberAsNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(same_number(nan, nan));
  EXPECT_FALSE(same_number(nan, 1));
  EXPECT_TRUE(same_number(0.0, -0.0));
}

TEST(Numbers, QuantilesInterpolate) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({3}, 0.75), 3);
  EXPECT_EQ(quantile({3, 1}, 0.5), 2);
  EXPECT_EQ(quantile({4, 2, 3, 1}, 0.25), 1.75);
  EXPECT_EQ(quantile({4, 2, 3, 1}, 1), 4);
}

}  // namespace
}  // namespace jitstep::jit
