// The rounding of narrow formats over all floats, against the definition of the GPU's instructions in the PTX manual
// (cvt): to nearest even, NaN is all ones without a sign, and .satfinite gives the largest number.
#include <gtest/gtest.h>

#include <cmath>

#include "../../templates/lang/contract.cuh"

namespace jitstep::support {
namespace {

struct Format {
  int bits, fraction, least;  // least: the exponent of 2 of the smallest normal number
  uint32 largest;             // of the magnitudes that rounding gives: a number or infinity
};

// Exponents below `least` do not exist. The sum of a size in units of its last bit and of 2^52 is rounded to units.
uint32 defined(const Format& format, float x) {
  const uint32 sign = 1u << (format.bits - 1);
  if (x != x) return sign - 1;
  const float size = std::min(abs(x), std::numeric_limits<float>::max());
  const int exponent = std::max(static_cast<int>(bits_of(size) >> 23) - 127, format.least);
  const auto unit = static_cast<uint64>(1023 + exponent - format.fraction) << 52;
  const double units = double{size} / double_of(unit) + 0x1p52 - 0x1p52;
  const uint32 magnitude = (static_cast<uint32>(exponent - format.least) << format.fraction) +
                           static_cast<uint32>(units);
  return std::min(magnitude, format.largest) | (std::signbit(x) ? sign : 0);
}

constexpr Format kBf16{16, 7, -126, 0x7f80}, kFp16{16, 10, -14, 0x7c00}, kE4m3{8, 3, -6, 0x7e},
    kE5m2{8, 2, -14, 0x7b};

TEST(AllFloats, AreRoundedAsByTheInstructionsOfAGpu) {
  uint64 bf16 = 0, fp16 = 0, e4m3 = 0, e5m2 = 0;
  for (uint64 bits = 0; bits < 1ull << 32; ++bits) {
    const float x = float_of(static_cast<uint32>(bits));
    bf16 += float_to_bf16(x) != defined(kBf16, x);
    fp16 += float_to_fp16(x) != defined(kFp16, x);
    e4m3 += float_to_e4m3(x) != defined(kE4m3, x);
    // The instruction for E5M2 gives the largest number where this library needs infinity.
    e5m2 += float_to_e5m2(x) != defined(kE5m2, x) + (abs(x) >= kE5m2Infinite ? 1 : 0);
  }
  EXPECT_EQ(bf16, 0u);
  EXPECT_EQ(fp16, 0u);
  EXPECT_EQ(e4m3, 0u);
  EXPECT_EQ(e5m2, 0u);
}

}  // namespace
}  // namespace jitstep::support
