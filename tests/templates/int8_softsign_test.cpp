// FlashOptim's 8-bit format against its formulas in double and against the package's recorded codes.
#include <gtest/gtest.h>

#include <cmath>

#include "../../templates/codecs/int8_softsign.cuh"
#include "support/safetensors.h"
#include "templates/neighbors.h"

namespace jitstep::support {
namespace {

// Encodes and decodes x in a block whose largest magnitude is `largest`.
template <class Sign, codecs::int8_softsign::Options O = codecs::int8_softsign::Options{}>
struct Softsign {
  using Codec = codecs::int8_softsign::Codec<Sign, O>;
  codecs::int8_softsign::Measured measured;
  explicit Softsign(float largest) : measured(Codec::measure({Codec::key(largest, 0)})) {}
  int code(float x) const {
    const int byte = Codec::encode(x, measured, 0);
    return kSame<Sign, Signed> && byte > 127 ? byte - 256 : byte;
  }
  float back(float x) const { return Codec::decode(Codec::encode(x, measured, 0), measured); }
};
using NoFloor = Softsign<NonNegative, codecs::int8_softsign::Options{.positive_floor = false}>;

int softsign_code(double y) {
  return static_cast<int>(std::floor(254 * y / (1 + std::abs(y)) + 0.5));
}

TEST(Int8Softsign, CodesTheNearestStepAroundEveryThresholdTiesUp) {
  for (const float scale :
       {1.0f, 0x1p-40f, 0x1p22f}) {  // does not change any bit of the normalized value
    const Softsign<Signed> block(scale);
    for (int code = -126; code <= 127; ++code) {
      const double n = 2 * code - 1;
      for (float y : around(n / (508 - std::abs(n))))
        ASSERT_EQ(block.code(y * scale), softsign_code(y)) << y;
    }
  }
  EXPECT_EQ(Softsign<Signed>(1).code(1.0f / 3), 64) << "63.5 exactly, or just above it";
}

TEST(Int8Softsign, CodesTheNearestRootAroundEveryThresholdTiesUp) {
  for (const float root : {1.0f, 0x1p-40f, 0x1p22f}) {
    const NoFloor block(root * root);
    for (int code = 1; code <= 255; ++code)
      for (float y : around((2 * code - 1) / 510.0 * (2 * code - 1) / 510.0))
        ASSERT_EQ(block.code(y * root * root),
                  static_cast<int>(std::floor(255 * double(std::sqrt(y)) + 0.5)))
            << y;
  }
}

// The package's recorded codes, except where float rounding decides near a tie.
TEST(Int8Softsign, HasTheCodesAndValuesOfFlashOptim) {
  const auto file = read_safetensors(JITSTEP_TEST_DATA "/golden/codebooks.safetensors");
  const auto values = [&](const char* name) { return file.tensors.at(name).values(); };
  const auto x = values("encode.softsign.signed.x"), v = values("encode.softsign.unsigned.x");
  const auto codes = values("encode.softsign.signed.flashoptim"),
             roots = values("encode.softsign.unsigned.flashoptim"),
             x_back = values("decode.softsign.signed.flashoptim"),
             v_back = values("decode.softsign.unsigned.flashoptim");
  const Softsign<Signed> m(1);
  const NoFloor n(1);
  int same = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto signed_x = static_cast<float>(x[i]), positive = static_cast<float>(v[i]);
    const double scaled = 254 * x[i] / (1 + std::abs(x[i])) + 0.5, at = 255 * std::sqrt(v[i]) + 0.5;
    if (std::abs(scaled - std::round(scaled)) < 1e-4 || std::abs(at - std::round(at)) < 1e-4)
      continue;
    ++same;
    EXPECT_EQ(m.code(signed_x), codes[i]) << x[i];
    EXPECT_EQ(n.code(positive), roots[i]) << v[i];
    EXPECT_NEAR(m.back(signed_x), x_back[i], 1e-6 * std::abs(x_back[i]));
    EXPECT_NEAR(n.back(positive), v_back[i], 1e-6 * v_back[i]);
  }
  EXPECT_GT(same, 1500);
}

// The original's scale is a float16, whose subnormal numbers lose up to all their bits.
TEST(Int8Softsign, ScalesToTenBitsOverAWiderRangeThanFloat16) {
  for (float largest = 0x1.555p-40f; largest < 0x1p23f; largest *= 1.7f) {
    EXPECT_NEAR(Softsign<Signed>(largest).back(largest), largest, largest * 0x1p-11f);
    EXPECT_NEAR(Softsign<Signed>(largest).back(-largest), -largest, largest * 0x1p-11f);
    const float square = largest * largest;
    EXPECT_NEAR(NoFloor(square).back(square), square, square * 0x1.01p-10f);
  }
  for (float largest : {1.7f, 60000.0f, 7e-5f})
    EXPECT_EQ(Softsign<Signed>(largest).back(largest), fp16_to_float(float_to_fp16(largest)));
}

// 1 + 2^-11 is stored as 1. If codes used the stored scale, they would change at smaller values.
TEST(Int8Softsign, CodesUseTheMagnitudeItselfNotTheStoredScale) {
  const float largest = 1 + 0x1p-11f;
  const Softsign<Signed> m(largest);
  const NoFloor v(largest * largest);
  EXPECT_EQ(m.back(largest), 1);
  for (int code = 1; code <= 127; ++code)
    for (const double beside : {-1e-4, 1e-4}) {
      const double n = 2 * code - 1, y = n / (508 - n) * (1 + beside),
                   root = n / 510 * (1 + beside);
      EXPECT_EQ(m.code(static_cast<float>(y * largest)), beside < 0 ? code - 1 : code);
      EXPECT_EQ(v.code(static_cast<float>(std::pow(root * largest, 2))),
                beside < 0 ? code - 1 : code);
    }
}

TEST(Int8Softsign, MagnitudesOutOfRangeUseTheNearestScale) {
  EXPECT_EQ(Softsign<Signed>(1e30f).back(1e30f), 0x1.ffcp22f);
  EXPECT_EQ(Softsign<Signed>(1e30f).back(1.0f), 0.0f);
  EXPECT_NEAR(Softsign<Signed>(1e30f).back(4e6f), 4e6, 3e4);
  EXPECT_EQ(Softsign<Signed>(1e-20f).back(1e-20f), 0.0f) << "far below 2^-50";
  EXPECT_NEAR(Softsign<Signed>(0x1.8p-49f).back(0x1p-49f), 0x1p-49, 0x1p-55);
  const Softsign<NonNegative> least(1e-37f);
  EXPECT_GT(least.back(1e-37f), 0);
  EXPECT_LT(least.back(1e-37f), 1e-30f);
}

TEST(Int8Softsign, APositiveValueIsNeverCodedAsZeroByDefault) {
  for (float x : {1e-9f, 1e-30f}) {
    EXPECT_EQ(Softsign<NonNegative>(1).code(x), 1);
    EXPECT_EQ(NoFloor(1).code(x), 0);
  }
  EXPECT_EQ(Softsign<NonNegative>(1).code(0), 0);
}

TEST(Int8Softsign, EveryCodeRoundTrips) {
  for (const float scale : {1.0f, 0x1.004p-13f}) {
    const Softsign<Signed> m(scale);
    const Softsign<NonNegative> v(scale * scale);
    for (int code = -127; code <= 127; ++code) {
      const auto byte = static_cast<uint8>(code);
      EXPECT_EQ(m.code(decltype(m)::Codec::decode(byte, m.measured)), code);
    }
    for (int code = 0; code <= 255; ++code)
      EXPECT_EQ(v.code(decltype(v)::Codec::decode(static_cast<uint8>(code), v.measured)), code);
  }
}

TEST(Int8Softsign, CodesNonFiniteValuesAsZeroOrTheLargest) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (float x : {inf, -inf, nan}) {
    EXPECT_EQ(Softsign<Signed>(1).code(x), 0);
    EXPECT_EQ(Softsign<NonNegative>(1).code(x), 255);
    EXPECT_EQ(Softsign<Signed>::Codec::key(x, 0), 0u);
    EXPECT_EQ(Softsign<NonNegative>::Codec::key(x, 0), 0u);
  }
}

TEST(Int8Softsign, ABlockOfZerosDecodesToPlusZero) {
  const Softsign<Signed> zeros(0), tiny(0x1p-140f);
  EXPECT_EQ(zeros.measured.scale, 0);
  for (int code = -127; code <= 127; ++code) {
    const auto byte = static_cast<uint8>(code);
    EXPECT_EQ(bits_of(decltype(zeros)::Codec::decode(byte, zeros.measured)), 0u);
  }
  EXPECT_EQ(tiny.code(-0x1p-140f), 0) << "too small to divide by";
}

}  // namespace
}  // namespace jitstep::support
