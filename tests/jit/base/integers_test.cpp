#include "jit/base/integers.h"

#include <gtest/gtest.h>

namespace jitstep::jit {
namespace {

TEST(Integers, QuotientsAreRoundedUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(ceil_div(7, 1), 7);
}

}  // namespace
}  // namespace jitstep::jit
