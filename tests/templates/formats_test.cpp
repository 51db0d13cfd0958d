// Conversions and comparisons against their definitions, not against themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "../../templates/lang/contract.cuh"
#include "templates/neighbors.h"

namespace jitstep::support {
namespace {

// The bits nearest to x among all finite non-negative values of a format, in ascending order. Ties go to even.
template <class Bits>
std::vector<double> values_of(float (*load)(Bits), unsigned special) {
  std::vector<double> values;
  for (unsigned bits = 0; bits < special; ++bits) values.push_back(load(static_cast<Bits>(bits)));
  return values;
}
template <class Bits>
void expect_nearest_around_every_threshold(float (*load)(Bits), Bits (*store)(float),
                                           unsigned special) {
  constexpr unsigned kSign = 1u << (8 * sizeof(Bits) - 1);
  const auto values = values_of(load, special);
  for (unsigned bits = 0; bits + 1 < special; ++bits) {
    const double middle = (values[bits] + values[bits + 1]) / 2;
    for (float x : around(middle)) {
      if (x < values[bits] || x > values[bits + 1]) continue;  // bfloat16's subnormal numbers
      const unsigned even = bits + (bits & 1);
      const unsigned expected = x < middle ? bits : x > middle ? bits + 1 : even;
      ASSERT_EQ(store(x), expected) << x;
      ASSERT_EQ(store(-x), expected | kSign) << -x;
    }
  }
}

TEST(BFloat16, IsTheNearestAroundEveryThreshold) {
  expect_nearest_around_every_threshold(bf16_to_float, float_to_bf16, 0x7f80);
}

TEST(Float16, IsTheNearestAroundEveryThreshold) {
  expect_nearest_around_every_threshold(fp16_to_float, float_to_fp16, 0x7c00);
  EXPECT_EQ(float_to_fp16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0f), 0x7c00);
}

// tests/optim/tensor/float8_test.cpp compares the values themselves with torch's.
TEST(Float8, IsTheNearestAroundEveryThreshold) {
  expect_nearest_around_every_threshold(e4m3_to_float, float_to_e4m3, 0x7f);
  expect_nearest_around_every_threshold(e5m2_to_float, float_to_e5m2, 0x7c);
}

// A format with six exponent bits instead of float16's five, and without sign. It contains every normal float16. Values
// beyond its range give more than 16 bits.
TEST(Magnitudes, OfAWiderRangeRoundAsFloat16Does) {
  const auto store =
      +[](float x) -> uint16 { return static_cast<uint16>(rounded_magnitude<10, 41>(bits_of(x))); };
  const auto load = +[](uint16 bits) { return float_of(widened_magnitude<10, 41>(bits)); };
  EXPECT_EQ(load(1), 0x1p-50f);
  EXPECT_EQ(load(0xffff), 0x1.ffcp22f);
  EXPECT_GT((rounded_magnitude<10, 41>(bits_of(0x1.fffp22f))), 0xffffu);
  for (unsigned bits = 0; bits + 1 < 0xffff; ++bits) {
    const double low = load(static_cast<uint16>(bits)), high = load(static_cast<uint16>(bits + 1));
    ASSERT_LT(low, high);
    for (float x : around((low + high) / 2)) {
      const unsigned even = bits + (bits & 1);
      const double middle = (low + high) / 2;
      ASSERT_EQ(store(x), x < middle ? bits : x > middle ? bits + 1 : even) << x;
    }
  }
  for (uint16 half = 0x400; half < 0x7c00; ++half)
    ASSERT_EQ(load(store(fp16_to_float(half))), fp16_to_float(half));
}

// CPUs and GPUs make NaNs of different signs: 0 / 0 is negative on x86 and positive on a GPU.
TEST(SixteenBits, HoldOneNaN) {
  for (uint32 bits :
       {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u, 0xff800001u}) {
    EXPECT_EQ(float_to_bf16(float_of(bits)), 0x7fff);
    EXPECT_EQ(float_to_fp16(float_of(bits)), 0x7fff);
    for (uint32 random : {0u, 0xffffu})
      EXPECT_EQ(float_to_bf16_stochastic(float_of(bits), random), 0x7fff);
  }
}

TEST(Comparisons, PropagateANaNLikeTorch) {
  const float nan = std::nanf("");
  EXPECT_TRUE(std::isnan(maximum(nan, 1.0f)));
  EXPECT_TRUE(std::isnan(maximum(1.0f, nan)));
  EXPECT_EQ(maximum(1.0f, 2.0f), 2.0f);
  EXPECT_EQ(maximum(2.0f, 1.0f), 2.0f);
}

#ifdef __FLT16_MANT_DIG__  // Clang 14 has no _Float16 for x86-64.
TEST(Float16, ConvertsEveryValueAsTheCompilerDoes) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    _Float16 half;
    const auto pattern = static_cast<uint16>(bits);
    std::memcpy(&half, &pattern, 2);
    const float expected = static_cast<float>(half);
    if (std::isnan(expected)) continue;
    EXPECT_EQ(bits_of(fp16_to_float(pattern)), bits_of(expected)) << bits;
  }
  std::mt19937 random(5);
  for (int i = 0; i < 2000000; ++i) {
    const float x = float_of(random());
    const auto half = static_cast<_Float16>(x);
    uint16 expected;
    std::memcpy(&expected, &half, 2);
    if (std::isnan(x)) expected = 0x7fffu;  // canonical
    ASSERT_EQ(float_to_fp16(x), expected) << x;
  }
}
#endif

TEST(BFloat16, RoundsToTheNearestEven) {
  for (unsigned high = 0; high < 0x7f80; high += 7) {
    const uint32 base = high << 16;
    EXPECT_EQ(float_to_bf16(float_of(base)), high);
    EXPECT_EQ(float_to_bf16(float_of(base + 0x7fff)), high);
    EXPECT_EQ(float_to_bf16(float_of(base + 0x8000)), high + (high & 1));
    EXPECT_EQ(float_to_bf16(float_of(base + 0x8001)), high + 1);
  }
  EXPECT_EQ(float_to_bf16(std::nanf("")), 0x7fff);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
}

TEST(StochasticRounding, RoundsUpWithTheProbabilityOfTheFraction) {
  for (float x : {1.0f, 1.0001f, -3.14159f, 1e-30f, 0.0f, -0.0f, 65504.7f}) {
    const uint32 fraction = bits_of(x) & 0xffffu, low = bits_of(x) >> 16;
    uint32 up = 0;
    for (uint32 random = 0; random < 65536; ++random) {
      const uint16 rounded = float_to_bf16_stochastic(x, random);
      ASSERT_TRUE(rounded == low || rounded == low + 1);
      up += rounded != low;
    }
    EXPECT_EQ(up, fraction) << x;
  }
}

TEST(StochasticRounding, DoesNotChangeValuesWithoutAFraction) {
  for (uint32 random : {0u, 1u, 65535u}) {
    EXPECT_EQ(float_to_bf16_stochastic(float_of(0x7fffffffu), random), 0x7fff);
    EXPECT_EQ(float_to_bf16_stochastic(std::numeric_limits<float>::infinity(), random), 0x7f80);
  }
}

}  // namespace
}  // namespace jitstep::support
