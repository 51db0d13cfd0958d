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

TEST(Integers, MultiplesAreRoundedUp) {
  EXPECT_EQ(round_up(0, 4), 0);
  EXPECT_EQ(round_up(1, 4), 4);
  EXPECT_EQ(round_up(4, 4), 4);
  EXPECT_EQ(round_up(5, 4), 8);
}

}  // namespace
}  // namespace jitstep::jit
