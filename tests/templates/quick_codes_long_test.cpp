// Every float from 0 to just above 1, and their negatives: a normalized value can exceed 1 by rounding.
#include "templates/quick_codes.h"

namespace jitstep::support {
namespace {

template <class Codec>
void expect_every_quick_code(std::uint32_t sign) {
  std::uint64_t wrong = 0;
  for (std::uint32_t bits = 0; bits <= bits_of(1.0f) + 4; ++bits)
    wrong += !has_quick_code<Codec>(float_of(bits | sign));
  EXPECT_EQ(wrong, 0u);
}

TEST(QuickCodes, OfEveryFloatAreItsCodes) {
  expect_every_quick_code<Int8Signed>(0);
  expect_every_quick_code<Int8Signed>(0x80000000u);
  expect_every_quick_code<Int8Floor>(0);
  expect_every_quick_code<Int8Nearest>(0);
  expect_every_quick_code<HalfFloor>(0);
  expect_every_quick_code<Int4Signed>(0);
  expect_every_quick_code<Int4Signed>(0x80000000u);
  expect_every_quick_code<Int4NonNegative>(0);
}

}  // namespace
}  // namespace jitstep::support
