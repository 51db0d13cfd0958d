// COAT's expanded format against its formulas in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "../../templates/codecs/fp8_expanded.cuh"
#include "templates/neighbors.h"

namespace jitstep::support {
namespace {

using Codec = codecs::fp8_expanded::Codec<Signed, codecs::fp8_expanded::Options{}>;
using codecs::fp8_expanded::Measured;

Measured measured(const std::vector<float>& block) {
  uint32 keys[2] = {0, 0};
  for (const float x : block)
    for (int n = 0; n < 2; ++n) keys[n] = std::max(keys[n], Codec::key(x, n));
  return Codec::measure(keys);
}

float back(float x, const Measured& meta) { return Codec::decode(Codec::encode(x, meta, 0), meta); }

// Magnitudes over `decades`. The largest is 3.
std::vector<float> block_of(double decades, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-decades, 0), side(-1, 1);
  std::vector<float> block = {3, static_cast<float>(3 * std::pow(10, -decades))};
  while (block.size() < 128)
    block.push_back(
        static_cast<float>(std::copysign(3 * std::pow(10, exponent(random)), side(random))));
  return block;
}

TEST(Fp8Expanded, ChoosesThePowerThatSpreadsTheBlockOverTheFormat) {
  for (const double decades : {0.5, 1.0, 2.0, 5.0, 9.0, 20.0}) {
    const Measured meta = measured(block_of(decades, 1));
    const double range = decades * std::log2(10), wanted = std::log2(448.0 * 448 / 2) / range;
    EXPECT_EQ(meta.scale, 3);
    EXPECT_NEAR(meta.power, std::min(64.0, std::floor(16 * wanted) / 16), 1.0 / 16) << decades;
    EXPECT_EQ(meta.power * 16, std::floor(meta.power * 16));
  }
}

TEST(Fp8Expanded, HasOneThresholdBetweenTwoValues) {
  for (const double decades : {0.5, 1.0, 5.0, 9.0}) {
    const Measured meta = measured(block_of(decades, 1));
    std::vector<float> values;
    for (int code = 1; code < 0x7f; ++code)
      values.push_back(Codec::decode(static_cast<uint8>(code), meta));
    const auto keep = [&](std::vector<float> all) {
      for (float& x : all) x = back(x, meta);
      return all;
    };
    const std::vector<float> thresholds = thresholds_of(values, keep);
    for (std::size_t i = 0; i < thresholds.size(); ++i)
      for (const float x : around(thresholds[i]))
        ASSERT_EQ(back(x, meta), values[x < thresholds[i] ? i : i + 1]) << x << " " << decades;
  }
}

// Half an ulp of E4M3, or of its subnormal numbers, after the power.
TEST(Fp8Expanded, RoundTripsToHalfAnUlpAfterThePower) {
  for (const double decades : {0.3, 1.0, 3.0, 6.0, 12.0}) {
    const auto block = block_of(decades, 2);
    const Measured meta = measured(block);
    for (const float x : block) {
      const double wanted = 448 * std::pow(std::abs(x) / 3.0, meta.power);
      const double decoded = 448 * std::pow(std::abs(back(x, meta)) / 3.0, meta.power);
      EXPECT_LE(std::abs(decoded - wanted), std::max(wanted * 0x1p-4, 0x1p-10) * 1.0001) << x;
      EXPECT_EQ(std::signbit(back(x, meta)), std::signbit(x));
      EXPECT_NE(back(x, meta), 0);
    }
  }
}

TEST(Fp8Expanded, StoresBlocksOfOneMagnitudeAndOfZeros) {
  for (const float x : {0.7f, 1e-20f, 3e30f}) {
    const Measured meta = measured({x, -x, x});
    EXPECT_NEAR(back(-x, meta) / x, -1, 0x1p-20);
    EXPECT_EQ(back(0, meta), 0);
  }
  const Measured zeros = measured({0, -0.0f});
  EXPECT_EQ(back(0, zeros), 0);
  EXPECT_FALSE(std::signbit(back(-0.0f, zeros)));
}

TEST(Fp8Expanded, StoresNonFiniteValuesAsNaNAndDoesNotChangeTheRestOfTheBlock) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Measured meta = measured({1, 0.25f, infinity, std::nanf("")});
  EXPECT_EQ(meta.scale, 1);
  EXPECT_EQ(meta.power, measured({1, 0.25f}).power);
  EXPECT_TRUE(std::isnan(back(infinity, meta)));
  EXPECT_TRUE(std::isnan(back(std::nanf(""), meta)));
}

// As a loop encodes, by the tables.
uint8 code_by_tables(float x, const Measured& meta) {
  const float logarithm = Codec::logarithm_of(x, meta);
  const int candidate = Codec::candidate(logarithm);
  EXPECT_GE(candidate, 0) << x;
  EXPECT_LE(candidate, 127) << x;
  return Codec::code_of(x, logarithm, candidate, Codec::thresholds.x[candidate]);
}

TEST(Fp8Expanded, DecodesByTheTableOfLogarithms) {
  for (const double decades : {0.01, 0.3, 1.0, 2.7, 9.0, 37.0}) {
    const Measured meta = measured(block_of(decades, 3));
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<uint8>(code);
      EXPECT_EQ(bits_of(Codec::value_of(Codec::logarithms.x[code], meta)),
                bits_of(Codec::decode(byte, meta)))
          << code << " " << decades;
    }
  }
}

// Around each threshold, at the ends of the range, and for values that are not finite.
TEST(Fp8Expanded, EncodesByTheTableOfThresholds) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const double decades : {0.01, 0.3, 1.0, 2.7, 9.0, 37.0}) {
    const Measured meta = measured(block_of(decades, 3));
    std::vector<float> all = {0, -0.0f, 1e-45f, 3, -3, 3.1f, infinity, -infinity, std::nanf("")};
    for (int code = 1; code < 0x7f; ++code) {
      const double log = static_cast<double>(Codec::thresholds.x[code]) / meta.power;
      const auto near = static_cast<float>(3 * std::exp2(log));
      for (int ulp = -40; ulp <= 40; ++ulp)
        all.push_back(float_of(bits_of(near) + static_cast<uint32>(ulp)));
    }
    for (const float x : all) ASSERT_EQ(code_by_tables(x, meta), Codec::encode(x, meta, 0)) << x;
  }
}

// The rounding to E4M3 is a step function of the logarithm.
TEST(Fp8Expanded, HasTheLeastLogarithmOfEachCode) {
  const auto code = [](float x) { return float_to_e4m3(448 * exp2_of_element(x)); };
  for (int wanted = 1; wanted < 0x7f; ++wanted) {
    const float least = Codec::thresholds.x[wanted];
    EXPECT_EQ(code(least), wanted);
    EXPECT_EQ(code(std::nextafter(least, -100.0f)), wanted - 1);
  }
  for (float x = 0; x > -20; x -= 0x1.23p-9f) {
    const int near = Codec::candidate(x), found = near - (x >= Codec::thresholds.x[near] ? 0 : 1);
    ASSERT_EQ(found, code(x)) << x;
  }
}

TEST(Fp8Expanded, LogarithmAndPowerOfTwoHaveTheirStatedPrecision) {
  for (uint32 bits = 0x00800000u; bits < 0x7f800000u; bits += 12347) {
    const double log = std::log2(static_cast<double>(float_of(bits)));
    ASSERT_LE(std::abs(log2_of_element(float_of(bits)) - log), std::abs(log) * 0x1p-22) << bits;
  }
  for (float x = -126; x <= 127; x += 0.00437f)
    ASSERT_NEAR(exp2_of_element(x) / std::exp2(static_cast<double>(x)), 1, 0x1p-23) << x;
  EXPECT_EQ(exp2_of_element(-1000), 0x1p-126f);
}

}  // namespace
}  // namespace jitstep::support
