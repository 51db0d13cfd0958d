// LAMB16's format: clipping, division by the norm, and rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "../../templates/codecs/fp8_norm.cuh"
#include "templates/neighbors.h"

namespace jitstep::support {
namespace {

using Fp8Signed = codecs::fp8_norm::Codec<Signed>;
using Fp8Positive = codecs::fp8_norm::Codec<NonNegative>;

codecs::fp8_norm::AuxState norm_of(float next) { return {{.prev = next, .next = next}}; }

TEST(Fp8Norm, TheNormIsTheRootOfTheMeanOfCappedSquares) {
  using codecs::fp8_norm::Norm;
  EXPECT_EQ(Fp8Signed::terms(Of<Norm>{}, 3.0f)[0], 9);
  EXPECT_EQ(Fp8Signed::terms(Of<Norm>{}, -4.0f)[0], 10);
  EXPECT_EQ(Fp8Signed::terms(Of<Norm>{}, 1e30f)[0], 10);
  for (float x : {std::nanf(""), HUGE_VALF, -HUGE_VALF})
    EXPECT_EQ(Fp8Signed::terms(Of<Norm>{}, x)[0], 0) << "does not add to the norm";
  codecs::fp8_norm::AuxState m = norm_of(1);
  EXPECT_FLOAT_EQ(Fp8Signed::finalize(Of<Norm>{}, Totals<1>{{16}}, 8, {.least_norm = 0.25}, m).norm,
                  0.75f);
  EXPECT_FLOAT_EQ(m.norm.next, 0.75f);
  EXPECT_FLOAT_EQ(Fp8Signed::finalize(Of<Norm>{}, Totals<1>{{0}}, 8, {}, m).norm, 1e-6f);
}

// As the original divides and casts: it clips the quotient of signed values, and the value itself otherwise.
TEST(Fp8Norm, RoundsToTheNearestMultipleOfTheNormAroundEveryThreshold) {
  for (const float norm : {1.0f, 0x1p-20f}) {
    const auto m = norm_of(norm);
    for (int code = 0; code < 0x57; ++code) {  // 15
      const double low = e4m3_to_float(static_cast<uint8>(code)),
                   high = e4m3_to_float(static_cast<uint8>(code + 1));
      for (float y : around((low + high) / 2)) {
        ASSERT_EQ(Fp8Signed::encode(y * norm, {}, 0, m), float_to_e4m3(y)) << y;
        ASSERT_EQ(Fp8Signed::encode(-y * norm, {}, 0, m), float_to_e4m3(-y)) << y;
      }
    }
    for (float y : {15.0f, 15.1f, 1000.0f, 1e30f}) {
      EXPECT_EQ(Fp8Signed::decode(Fp8Signed::encode(y, {}, 0, m), {}, m), 15 * norm);
      EXPECT_EQ(Fp8Signed::decode(Fp8Signed::encode(-y, {}, 0, m), {}, m), -15 * norm);
    }
  }
  const auto m = norm_of(0x1p-10f);
  for (int code = 0; code < 0x71; ++code) {  // 10240
    const double low = e5m2_to_float(static_cast<uint8>(code)),
                 high = e5m2_to_float(static_cast<uint8>(code + 1));
    for (float y : around((low + high) / 2))
      ASSERT_EQ(Fp8Positive::encode(y * 0x1p-10f, {}, 0, m), float_to_e5m2(y)) << y;
  }
  EXPECT_EQ(Fp8Positive::decode(Fp8Positive::encode(11.0f, {}, 0, m), {}, m), 10);
}

TEST(Fp8Norm, StoresZeroIfTheNormIsZero) {
  const auto m = norm_of(0);
  for (const float x : {0.0f, 1e-25f, 1.0f}) {
    EXPECT_EQ(Fp8Signed::decode(Fp8Signed::encode(x, {}, 0, m), {}, m), 0) << x;
    EXPECT_EQ(Fp8Positive::decode(Fp8Positive::encode(x, {}, 0, m), {}, m), 0) << x;
  }
}

TEST(Fp8Norm, StoresNonFiniteValues) {
  const auto m = norm_of(0x1p-16f);
  const auto back = [&](auto codec, float x) {
    return decltype(codec)::decode(decltype(codec)::encode(x, {}, 0, m), {}, m);
  };
  for (float x : {std::nanf(""), HUGE_VALF, -HUGE_VALF})
    EXPECT_TRUE(std::isnan(back(Fp8Signed{}, x))) << "E4M3 has no infinity";
  EXPECT_TRUE(std::isnan(back(Fp8Positive{}, std::nanf(""))));
  EXPECT_EQ(back(Fp8Positive{}, HUGE_VALF), HUGE_VALF);
  EXPECT_EQ(back(Fp8Positive{}, 1.0f), HUGE_VALF) << "at least 61440 times the norm";
}

}  // namespace
}  // namespace jitstep::support
