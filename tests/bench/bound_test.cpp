// Tests bench/bound.h: the bandwidth baseline moves the bytes of a step, and no others.
#include "../../bench/bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace jitstep::bench {
namespace {

constexpr std::int64_t kSize = 1001, kBegin = 3, kEnd = 998;

// Arrays of values 0, 1, 2, .. after a baseline loop over [kBegin, kEnd).
template <class Weight, class State>
void expect_each_element_once(const std::string& weights, const std::string& state, int arrays) {
  std::vector<Weight> p, g;
  std::vector<std::vector<State>> slots(3);
  for (int i = 0; i < kSize; ++i) {
    p.push_back(static_cast<Weight>(i));
    g.push_back(static_cast<Weight>(i / 2));
    for (auto& slot : slots) slot.push_back(static_cast<State>(i));
  }
  bandwidth_baseline(weights, state, arrays)(
      {p.data(), g.data(), {slots[0].data(), slots[1].data(), slots[2].data()}}, kBegin, kEnd);
  for (int i = 0; i < kSize; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool inside = i >= kBegin && i < kEnd;
    EXPECT_EQ(p[at], static_cast<Weight>(inside ? i ^ (i / 2 & 1) : i)) << weights << " " << i;
    EXPECT_EQ(g[at], static_cast<Weight>(i / 2)) << i;
    for (int k = 0; k < 3; ++k)
      EXPECT_EQ(slots[static_cast<std::size_t>(k)][at],
                static_cast<State>(inside && k < arrays ? i ^ 1 : i))
          << state << " " << k << " " << i;
  }
}

TEST(BandwidthBaseline, ReadsAndWritesEveryElementOfItsArraysOnce) {
  using Float = std::uint32_t;
  using Half = std::uint16_t;
  expect_each_element_once<Float, Float>("float32", "float32", 2);
  expect_each_element_once<Float, Half>("float32", "bfloat16", 2);
  expect_each_element_once<Float, std::uint8_t>("float32", "uint8", 2);
  expect_each_element_once<Float, std::uint8_t>("float32", "uint8", 1);
  expect_each_element_once<Half, Half>("bfloat16", "bfloat16", 2);
  expect_each_element_once<Half, Half>("bfloat16", "bfloat16", 3);
}

TEST(BandwidthBaseline, RejectsAnUnsupportedCombination) {
  EXPECT_THROW(bandwidth_baseline("float32", "float32", 3), std::invalid_argument);
  EXPECT_THROW(bandwidth_baseline("float64", "float32", 2), std::invalid_argument);
}

TEST(BandwidthBaseline, HandWrittenAdamWFollowsItsFormula) {
  std::vector<float> p(kSize, 0.5f), g(kSize), m(kSize, 0.25f), v(kSize, 0.0625f);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i) / 500 - 1;
  plain_adamw({p.data(), g.data(), {m.data(), v.data()}}, kBegin, kEnd);
  for (std::size_t i = 0; i < g.size(); ++i) {
    const bool inside =
        static_cast<std::int64_t>(i) >= kBegin && static_cast<std::int64_t>(i) < kEnd;
    const double first = 0.9 * 0.25 + 0.1 * g[i], second = 0.999 * 0.0625 + 0.001 * g[i] * g[i];
    const double moved =
        0.5 * (1 - 1e-5) - 1e-3 * (first / 0.1) / (std::sqrt(second / 0.001) + 1e-8);
    EXPECT_NEAR(m[i], inside ? first : 0.25, 1e-6) << i;
    EXPECT_NEAR(v[i], inside ? second : 0.0625, 1e-6) << i;
    EXPECT_NEAR(p[i], inside ? moved : 0.5, 1e-6) << i;
  }
}

}  // namespace
}  // namespace jitstep::bench
