#include "jit/step/shared_memory.h"

#include <gtest/gtest.h>

namespace jitstep::jit {
namespace {

Elements range(std::uintptr_t begin, std::uintptr_t end) { return {begin, end, {}, {}, 1}; }

TEST(AddressRanges, ContainTheirFirstAddressAndNotTheirEnd) {
  const AddressRanges ranges({range(100, 200)});
  EXPECT_TRUE(ranges.overlap(100, 101));
  EXPECT_TRUE(ranges.overlap(199, 200));
  EXPECT_TRUE(ranges.overlap(50, 101));
  EXPECT_TRUE(ranges.overlap(50, 500));
  EXPECT_FALSE(ranges.overlap(50, 100));
  EXPECT_FALSE(ranges.overlap(200, 300));
}

TEST(AddressRanges, MayBeGivenInAnyOrderAndContainEachOther) {
  const AddressRanges ranges({range(500, 510), range(100, 400), range(120, 130)});
  EXPECT_TRUE(ranges.overlap(390, 395)) << "in the long range, after the short one in it";
  EXPECT_FALSE(ranges.overlap(400, 500));
  EXPECT_TRUE(ranges.overlap(509, 600));
  EXPECT_FALSE(ranges.overlap(510, 600));
}

TEST(AddressRanges, OverlapNothingIfThereAreNone) {
  EXPECT_FALSE(AddressRanges().overlap(0, 1000));
  EXPECT_FALSE(AddressRanges(std::vector<Elements>{}).overlap(0, 1000));
}

}  // namespace
}  // namespace jitstep::jit
