// Weight formats with a residual: round trips of values, and parameters that the user has overwritten.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../templates/weights/kahan.cuh"
#include "../../templates/weights/split8.cuh"
#include "templates/stored_weights.h"

namespace jitstep {
namespace {

using Master = weights::master::Weights<BFloat16>;
using Split16 = weights::split16::Weights<BFloat16>;
using Kahan = weights::kahan::Weights<BFloat16>;

// Every sign and exponent, with fractions around the thresholds of rounding to the upper half.
std::vector<float> values() {
  std::vector<float> all;
  for (std::uint32_t top = 0; top < 1u << 9; ++top)
    for (const std::uint32_t high : {0u, 1u, 2u, 63u, 126u, 127u})
      for (const std::uint32_t low :
           {0u, 1u, 2u, 0x5555u, 0x7ffeu, 0x7fffu, 0x8000u, 0x8001u, 0xaaaau, 0xfffeu, 0xffffu})
        all.push_back(std::bit_cast<float>(top << 23 | high << 16 | low));
  return all;
}

template <class W>
class ExactWeights : public testing::Test {};
TYPED_TEST_SUITE(ExactWeights, ExactWeightFormats);

TYPED_TEST(ExactWeights, RoundTripEveryValueBitForBitAndNaNAsNaN) {
  for (const float x : values()) {
    if (std::isnan(x))
      EXPECT_TRUE(std::isnan(back<TypeParam>(x)) && std::isnan(shown<TypeParam>(x)));
    else
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back<TypeParam>(x)), std::bit_cast<std::uint32_t>(x));
  }
}

TEST(Split16Weights, RoundTheParameterToNearestWithTiesAwayFromZero) {
  for (const float x : values()) {
    if (std::isnan(x)) continue;
    const std::uint32_t up = std::bit_cast<std::uint32_t>(x) + 0x8000u;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(shown<Split16>(x)), up & 0xffff0000u);
  }
}

TEST(Split16Weights, KeepAnOverwrittenParameterForEveryResidual) {
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits)
    for (const std::uint16_t low : {0x0000, 0x0001, 0x5555, 0x7fff, 0x8000, 0xaaaa, 0xffff}) {
      const float x = Split16::load(static_cast<std::uint16_t>(bits), low);
      if ((bits & 0x7fff) > 0x7f80)
        ASSERT_TRUE(std::isnan(x)) << bits << " with residual " << low;
      else
        ASSERT_EQ(Split16::Format::load(static_cast<std::uint16_t>(bits)), shown<Split16>(x))
            << bits << " with residual " << low;
    }
}

TEST(MasterWeights, UseAnOverwrittenParameter) {
  float master = 0;
  const auto bits = Master::store(1.00123f, 0, master);
  EXPECT_EQ(Master::load(bits, master), 1.00123f);
  EXPECT_EQ(Master::load(bits + 1, master), BFloat16::load(bits + 1));
  EXPECT_EQ(Master::load(0x8000, 0.0f), 0.0f) << "the sign of zero counts as a change";
  EXPECT_TRUE(std::isnan(Master::load(0x7fff, 2.0f)));
}

TEST(KahanWeights, LoseAtMostOne512thOfAnUlp) {
  for (const float x : values()) {
    if (!std::isfinite(x) || std::abs(x) > 0x1p127f || std::abs(x) < 0x1p-100f) continue;
    EXPECT_EQ(shown<Kahan>(x), BFloat16::load(BFloat16::store(x)));
    EXPECT_LE(std::abs(back<Kahan>(x) - x), std::abs(x) * 0x1p-17f) << x;
  }
}

TEST(KahanWeights, DropAResidualThatDoesNotFitTheParameter) {
  std::uint16_t shift = 0;
  Kahan::store(1000.9f, 0, shift);
  EXPECT_EQ(Kahan::load(BFloat16::store(0.5f), shift), 0.5f);
  EXPECT_NE(Kahan::load(BFloat16::store(1000.9f), shift), BFloat16::load(BFloat16::store(1000.9f)));
}

// For every residual that `store` can leave, the difference is at most half an ulp in the parameter's binade.
template <class W>
void expect_within_half_an_ulp(int extra_bits) {
  for (std::uint32_t bits = 0; bits < 1u << 16; bits += 7) {
    if ((bits & 0x7f80u) == 0x7f80u) continue;
    const float p = BFloat16::load(static_cast<std::uint16_t>(bits));
    const double half = std::ldexp(1.0, std::max<int>((bits & 0x7f80u) >> 7, 1) - 127 - 8);
    for (std::uint32_t residual = 0; residual < 1u << extra_bits;
         residual += extra_bits == 8 ? 1 : 61) {
      if (extra_bits == 8 && residual == 0x80) continue;  // split8 stores -127 to 127
      const double away =
          W::load(static_cast<std::uint16_t>(bits), static_cast<typename W::Residual>(residual)) -
          static_cast<double>(p);
      ASSERT_LE(std::abs(away), half) << bits << " with residual " << residual;
    }
  }
}

TEST(ResidualsOfAnOverwrittenParameter, AddAtMostHalfAnUlp) {
  expect_within_half_an_ulp<Split16>(16);
  expect_within_half_an_ulp<Kahan>(16);
  expect_within_half_an_ulp<weights::split8::Weights<BFloat16>>(8);
}

TEST(KahanWeights, StoreNonFiniteValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(back<Kahan>(infinity), infinity);
  EXPECT_EQ(back<Kahan>(-std::numeric_limits<float>::max()), -infinity) << "as bfloat16 does";
  EXPECT_TRUE(std::isnan(back<Kahan>(std::numeric_limits<float>::quiet_NaN())));
}

template <class Format>
class Split8Weights : public testing::Test {};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Split8Weights, Halves);

// The definition in double: the error in units of half an ulp, in [-1, 1], times 127, rounded half away from zero.
template <class Format>
int code_of_definition(float x) {
  using Ulp = weights::split8::Ulp<Format>;
  const auto bits = Format::store(x);
  const int exponent = std::max((bits & 0x7fff) >> Ulp::mantissa, 1);
  const double half = std::ldexp(1.0, exponent - Ulp::bias - Ulp::mantissa - 1);
  const double share = (static_cast<double>(x) - Format::load(bits)) / half;
  return static_cast<int>(std::round(std::fmax(-1, std::fmin(1, share)) * 127));
}

TYPED_TEST(Split8Weights, StoreTheErrorToTheNearest127thOfHalfAnUlp) {
  using W = weights::split8::Weights<TypeParam>;
  for (const float x : values()) {
    if (!std::isfinite(shown<W>(x))) continue;
    std::uint8_t error = 0;
    const auto bits = W::store(x, 0, error);
    EXPECT_EQ(bits, TypeParam::store(x));
    ASSERT_EQ(static_cast<std::int8_t>(error), code_of_definition<TypeParam>(x)) << x;
    const float p = TypeParam::load(bits);
    EXPECT_LE(std::abs(W::load(bits, error) - x), std::abs(p - x))
        << "worse than without the residual";
  }
}

TYPED_TEST(Split8Weights, StoreNonFiniteValues) {
  using W = weights::split8::Weights<TypeParam>;
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(back<W>(infinity), infinity);
  EXPECT_EQ(back<W>(-infinity), -infinity);
  EXPECT_TRUE(std::isnan(back<W>(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace jitstep
