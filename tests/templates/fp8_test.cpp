// Block-scaled 8-bit floats against their definition in double, and the special cases of these formats and of float16
// state.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../../templates/codecs/fp16.cuh"
#include "../../templates/codecs/fp8.cuh"
#include "../../templates/codecs/fp8_e5m2.cuh"
#include "templates/neighbors.h"

namespace jitstep::support {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
const float kQuietNaN = std::numeric_limits<float>::quiet_NaN();

struct E4M3 {
  static constexpr double largest = 448;
  static float value(int code) { return e4m3_to_float(static_cast<uint8>(code)); }
  template <class Sign, bool Floor>
  using Codec = codecs::fp8::Codec<Sign, codecs::fp8::Options{.positive_floor = Floor}>;
};
struct E5M2 {
  static constexpr double largest = 57344;
  static float value(int code) { return e5m2_to_float(static_cast<uint8>(code)); }
  template <class Sign, bool Floor>
  using Codec = codecs::fp8_e5m2::Codec<Sign, codecs::fp8_e5m2::Options{.positive_floor = Floor}>;
};

// A block whose largest magnitude is `largest`.
template <class Codec>
struct Block {
  decltype(Codec::measure({0u})) measured;
  explicit Block(float largest) : measured(Codec::measure({Codec::key(largest, 0)})) {}
  int code(float x) const { return Codec::encode(x, measured, 0); }
  float back(float x) const { return Codec::decode(Codec::encode(x, measured, 0), measured); }
};

template <class Format>
class ScaledFloat8 : public testing::Test {
 protected:
  using Signed8 = typename Format::template Codec<Signed, true>;
  using Floored = typename Format::template Codec<NonNegative, true>;
  using Plain = typename Format::template Codec<NonNegative, false>;
};
using Formats = testing::Types<E4M3, E5M2>;
TYPED_TEST_SUITE(ScaledFloat8, Formats);

// The scales are powers of two, so that dividing by them is exact.
TYPED_TEST(ScaledFloat8, CodesTheNearestValueAroundEveryThresholdTiesToEven) {
  for (const double scale : {1.0, 0x1p-60, 0x1p40}) {
    const Block<typename TestFixture::Signed8> block(
        static_cast<float>(TypeParam::largest * scale));
    for (int code = 0; TypeParam::value(code + 1) <= TypeParam::largest; ++code) {
      const double low = TypeParam::value(code), high = TypeParam::value(code + 1);
      const double middle = (low + high) / 2;
      for (const float y : around(middle)) {
        const int nearest = y > middle || (y == middle && code % 2 == 1) ? code + 1 : code;
        ASSERT_EQ(block.code(static_cast<float>(y * scale)), nearest) << y;
        ASSERT_EQ(block.code(static_cast<float>(-y * scale)), nearest | 0x80) << -y;
      }
    }
  }
}

TYPED_TEST(ScaledFloat8, StoresTheLargestMagnitudeToOneUlp) {
  for (const float largest : {1.0f, 3.14159f, 1e-30f, 1e30f, -0.7f}) {
    const Block<typename TestFixture::Signed8> block(largest);
    EXPECT_NEAR(block.back(largest) / largest, 1, 0x1p-22);
    EXPECT_EQ(block.back(0.0f), 0.0f);
    EXPECT_FALSE(std::signbit(block.back(-0.0f)));
  }
}

TYPED_TEST(ScaledFloat8, CodesAPositiveValueAsZeroOnlyByOption) {
  const Block<typename TestFixture::Floored> floored(1);
  const Block<typename TestFixture::Plain> plain(1);
  EXPECT_EQ(floored.code(1e-20f), 1);
  EXPECT_EQ(plain.code(1e-20f), 0);
  EXPECT_EQ(floored.code(0.0f), 0);
}

TYPED_TEST(ScaledFloat8, StoresNonFiniteValuesAsNaNAndDoesNotChangeTheRestOfTheBlock) {
  using Codec = typename TestFixture::Signed8;
  EXPECT_EQ(Codec::key(kQuietNaN, 0), 0u);
  EXPECT_EQ(Codec::key(-kInfinite, 0), 0u);
  const Block<Codec> block(2);
  EXPECT_TRUE(std::isnan(block.back(kQuietNaN)));
  EXPECT_TRUE(std::isnan(block.back(kInfinite)));
}

// The scale would be subnormal.
TYPED_TEST(ScaledFloat8, StoresBlocksOfTheSmallestNumbers) {
  for (const float largest : {0x1p-126f, 0x1.8p-123f, 0x1p-118f}) {
    const Block<typename TestFixture::Signed8> block(largest);
    EXPECT_EQ(block.back(largest), largest);
    EXPECT_EQ(block.back(-0x1p-126f), -0x1p-126f);
  }
  EXPECT_EQ(Block<typename TestFixture::Signed8>(0).back(0), 0);
}

using codecs::fp16::Codec;
using codecs::fp16::Options;

TEST(Float16State, SaturatesAndStoresNonFiniteValues) {
  using Plain = Codec<Signed, Options{}>;
  const auto back = [](float x) { return Plain::decode(Plain::encode(x, {}, 0), {}); };
  EXPECT_EQ(back(1e6f), 65504);
  EXPECT_EQ(back(-65520.0f), -65504);
  EXPECT_EQ(back(-kInfinite), -kInfinite);
  EXPECT_TRUE(std::isnan(back(kQuietNaN)));
  EXPECT_EQ(back(0x1.554p-3f), 0x1.554p-3f);
}

TEST(Float16State, CodesAPositiveValueAsZeroOnlyByOption) {
  EXPECT_EQ((Codec<NonNegative, Options{}>::encode(1e-12f, {}, 0)), 1);
  EXPECT_EQ((Codec<NonNegative, Options{.positive_floor = false}>::encode(1e-12f, {}, 0)), 0);
  EXPECT_EQ((Codec<Signed, Options{}>::encode(1e-12f, {}, 0)), 0);
  EXPECT_EQ((Codec<NonNegative, Options{}>::encode(0.0f, {}, 0)), 0);
}

}  // namespace
}  // namespace jitstep::support
