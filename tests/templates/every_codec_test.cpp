// Properties of every state format in the folder: how storing and loading changes a value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "support/plain_steps.h"
#include "templates/neighbors.h"

namespace jitstep::support {
namespace {

using Kind = jit::Manifest::Kind;
using Floats = std::vector<float>;

// Stores the gradient in a slot of either sign, and copies the stored value into the parameter.
const std::map<std::string, std::string> kTested = {{"rules/tested.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::tested {
struct Flags {
  bool non_negative = false;
};
struct Slots {
  Signed a;       // if !non_negative
  NonNegative b;  // if non_negative
};
template <Flags F>
struct Rule {
  KHD static void update_state(auto& e, const auto&) {
    if (F.non_negative) e.b.next = e.g;
    else e.a.next = e.g;
  }
  KHD static void update_param(auto& e, const auto&) { e.p = F.non_negative ? e.b.prev : e.a.prev; }
};
}
)"}};

// One codec with its options, tested by storing values and loading them again.
class TestedCodec {
 public:
  TestedCodec(OwnTemplates& own, jit::CpuBackend& cpu, const jit::CodecChoice& codec,
              bool non_negative)
      : own_(own), cpu_(cpu), codec_(codec), options_("tested", own.catalog) {
    options_.set("non_negative", non_negative);
  }

  // The decoded values, and the codes that were stored.
  struct Stored {
    Floats values;
    std::vector<std::uint8_t> codes;
    bool operator==(const Stored&) const = default;
  };
  Stored round_trip(const Floats& x, std::uint64_t seed = 0) const {
    const auto size = static_cast<std::int64_t>(x.size());
    jit::KernelSpec spec = plain_spec(options_);
    for (auto& slot : spec.state.slots)
      if (slot) slot = codec_;
    PlainSteps<float> steps(own_, cpu_, spec, options_, {{size}});
    steps.g[0] = x;
    steps.step(1, seed);
    const int slot = options_.get("non_negative").boolean() ? 1 : 0;
    const auto layout = jit::slot_layout(steps.plan(), slot, size);
    const auto* const codes = steps.codes<std::uint8_t>(0, static_cast<std::size_t>(slot));
    Stored stored{{}, {codes, codes + layout.codes}};
    steps.step(2);
    stored.values = steps.p[0];
    return stored;
  }

  const jit::Manifest& codec() const { return own_.catalog.codec(codec_.name); }
  // Whether the codec rounds stochastically, always or by an option.
  bool is_stochastic() const {
    const auto chosen = codec_.options.find("stochastic");
    return codec().random && (codec().find("stochastic") == nullptr ||
                              (chosen != codec_.options.end() && chosen->second.boolean()));
  }
  bool non_negative() const { return options_.get("non_negative").boolean(); }

 private:
  OwnTemplates& own_;
  jit::CpuBackend& cpu_;
  jit::CodecChoice codec_;
  jit::OptionValues options_;
};

// A codec, and the boolean option that differs from its default, if any.
using CodecAndSwitch = std::pair<std::string, std::string>;

class EveryCodec : public testing::TestWithParam<CodecAndSwitch> {
 protected:
  // Runs the check for a slot of each sign.
  template <class Check>
  void for_slots(const Check& check) {
    for (const bool non_negative : {false, true}) {
      SCOPED_TRACE(non_negative ? "non-negative" : "signed");
      check(TestedCodec(own_, cpu_, choice(), non_negative));
    }
  }
  TestedCodec in_blocks_of(int block, bool non_negative) {
    return TestedCodec(own_, cpu_, {GetParam().first, {{"block", block}}}, non_negative);
  }

 private:
  jit::CodecChoice choice() const {
    const auto& [codec, switched] = GetParam();
    if (switched.empty()) return {codec};
    const bool default_value = own_.catalog.codec(codec).find(switched)->initial.boolean();
    return {codec, {{switched, !default_value}}};
  }

  OwnTemplates own_{kTested};
  jit::CpuBackend cpu_{own_.engine};
};

// Values over several decades, of both signs if the slot is signed. The first of every 32 is 1, the largest. The last
// block is incomplete.
Floats spread(const TestedCodec& tested, std::size_t size = 4096 + 7) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> decade(-5, 0), side(0, 1);
  Floats x(size);
  for (std::size_t i = 0; i < size; ++i) {
    x[i] = i % 32 == 0 ? 1 : std::pow(10.0f, decade(random)) * 0.999f;
    if (!tested.non_negative() && i % 32 != 0 && side(random) < 0.5f) x[i] = -x[i];
  }
  return x;
}

Floats times(Floats x, float factor) {
  for (float& one : x) one *= factor;
  return x;
}

// Whether a value may depend on values outside its block, through sums over rows or the tensor.
bool has_sums(const TestedCodec& tested) { return !tested.codec().reductions.empty(); }
// LAMB16's format clips at sizes that do not scale with the values, and its norm depends on what is clipped.
bool clips_at_fixed_sizes(const TestedCodec& tested) { return tested.codec().name == "fp8_norm"; }
// Whether the format's range is smaller than that of float.
bool has_small_range(const TestedCodec& tested) { return tested.codec().name == "fp16"; }
// Whether the largest and smallest values of a block determine its format (COAT). Decoded values may then choose
// another one.
bool depends_on_the_smallest(const TestedCodec& tested) {
  return tested.codec().name == "fp8_expanded";
}
// Whether vectors use another codec. Along its only dimension, each value would be its own scale.
bool replaced_for_vectors(const TestedCodec& tested) { return !tested.codec().vectors.empty(); }
// Whether each block, or the tensor, has its own scale.
bool is_scaled(const TestedCodec& tested) {
  return !tested.codec().meta.empty() || has_sums(tested);
}

// The factors are powers of four, because a codec may store square roots.
TEST_P(EveryCodec, ScalesWithAPowerOfTwo) {
  for_slots([](const TestedCodec& tested) {
    if (clips_at_fixed_sizes(tested) || has_small_range(tested)) return;
    const Floats x = spread(tested);
    const TestedCodec::Stored stored = tested.round_trip(x);
    for (const float factor : {0x1p-20f, 0x1p14f}) {
      const TestedCodec::Stored scaled = tested.round_trip(times(x, factor));
      EXPECT_EQ(scaled.values, times(stored.values, factor)) << factor;
      EXPECT_TRUE(!is_scaled(tested) || scaled.codes == stored.codes) << factor;
    }
  });
}

// The values that a block with largest magnitude 1 can hold, as far as a fine sweep finds them.
Floats values_of(const TestedCodec& tested) {
  constexpr int kSteps = 40000;
  Floats sweep = {1, 0};
  for (int i = 2; i < kSteps; ++i) {
    const float x = i % 32 == 0 ? 1 : std::pow(10.0f, -7 * static_cast<float>(i) / kSteps);
    sweep.push_back(i % 2 == 1 && !tested.non_negative() ? -x : x);
  }
  Floats values = tested.round_trip(sweep).values;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// For every rounding mode, the error is smaller than the gap around the value.
TEST_P(EveryCodec, RoundsToOneOfTheTwoNeighboringValues) {
  for_slots([](const TestedCodec& tested) {
    if (has_sums(tested) || depends_on_the_smallest(tested)) return;
    const Floats known = values_of(tested), x = spread(tested),
                 stored = tested.round_trip(x).values;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto above = std::lower_bound(known.begin(), known.end(), x[i]);
      const float high = above == known.end() ? known.back() : *above;
      const float low = above == known.begin() ? known.front() : *(above - 1);
      ASSERT_TRUE(stored[i] >= std::min(low, x[i]) && stored[i] <= std::max(high, x[i]))
          << x[i] << " became " << stored[i] << ", not between " << low << " and " << high;
    }
  });
}

// The decoded value of each x in a block whose largest magnitude is 1.
Floats stored_next_to_one(const TestedCodec& tested, const Floats& x) {
  constexpr std::size_t kOthers = 31;
  Floats blocks;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % kOthers == 0) blocks.push_back(1);
    blocks.push_back(x[i]);
  }
  const Floats all = tested.round_trip(blocks).values;
  Floats stored;
  for (std::size_t i = 0; i < x.size(); ++i) stored.push_back(all[i + i / kOthers + 1]);
  return stored;
}

// The values that decode to the same result form an interval. The test checks the six floats on either side of each
// end.
TEST_P(EveryCodec, HasOneThresholdBetweenTwoValues) {
  for_slots([](const TestedCodec& tested) {
    if (has_sums(tested) || depends_on_the_smallest(tested) || tested.is_stochastic()) return;
    const Floats values = values_of(tested);
    const auto round_trip = [&](const Floats& x) { return stored_next_to_one(tested, x); };
    if (round_trip({0.3f, 0.7f}) == Floats{0.3f, 0.7f})
      return;  // exact, so there are no thresholds
    const Floats thresholds = thresholds_of(values, round_trip);
    const Floats from = round_trip(thresholds);
    Floats near, wanted;
    for (std::size_t i = 0; i < thresholds.size(); ++i)
      for (const float x : around(thresholds[i])) {
        near.push_back(x);
        wanted.push_back(x < thresholds[i] ? values[i] : from[i]);
      }
    const Floats stored = round_trip(near);
    for (std::size_t i = 0; i < near.size(); ++i) ASSERT_EQ(stored[i], wanted[i]) << near[i];
    EXPECT_GT(near.size(), 13u * 14) << "at least sixteen values";
  });
}

TEST_P(EveryCodec, DecodedValuesRoundTripExactly) {
  for_slots([](const TestedCodec& tested) {
    if (clips_at_fixed_sizes(tested) || depends_on_the_smallest(tested) ||
        replaced_for_vectors(tested))
      return;
    const TestedCodec::Stored once = tested.round_trip(spread(tested));
    EXPECT_EQ(tested.round_trip(once.values), once);
  });
}

// Zeros that fill up the last block do not change the values before them.
TEST_P(EveryCodec, StoresAnIncompleteBlockLikeOneFilledWithZeros) {
  for_slots([](const TestedCodec& tested) {
    if (has_sums(tested)) return;
    for (const std::size_t size : {1, 127, 129, 255, 257, 4095, 4096, 4097}) {
      Floats whole = spread(tested, size);
      const Floats part = tested.round_trip(whole).values;
      whole.resize(8192);
      const Floats all = tested.round_trip(whole).values;
      EXPECT_EQ(part, Floats(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size))) << size;
    }
    EXPECT_TRUE(tested.round_trip({}).values.empty());
  });
}

// The smallest and largest allowed block.
std::vector<int> block_sizes(const jit::Manifest& codec) {
  const jit::Option* const block = codec.find("block");
  if (block == nullptr) return {};
  return {static_cast<int>(*block->constraint.low), static_cast<int>(*block->constraint.high)};
}

TEST_P(EveryCodec, SharesAScaleOnlyInBlocksOfTheChosenSize) {
  if (!GetParam().second.empty()) return;
  for_slots([this](const TestedCodec& by_default) {
    if (replaced_for_vectors(by_default)) return;
    for (const int block : block_sizes(by_default.codec())) {
      SCOPED_TRACE(block);
      const TestedCodec tested = in_blocks_of(block, by_default.non_negative());
      Floats x(static_cast<std::size_t>(3 * block), 0.00123f);
      const Floats before = tested.round_trip(x).values;
      x[0] = 4096;
      const Floats after = tested.round_trip(x).values;
      const auto end = static_cast<std::ptrdiff_t>(block);
      EXPECT_NE(after[static_cast<std::size_t>(block - 1)], before[0]);
      if (has_sums(tested)) {  // a scale that is relative to the tensor's moves by a step
        for (std::size_t i = static_cast<std::size_t>(block); i < after.size(); ++i)
          ASSERT_NEAR(after[i], before[i], before[i] / 4);
        continue;
      }
      EXPECT_EQ(Floats(after.begin() + end, after.end()),
                Floats(before.begin() + end, before.end()));
    }
  });
}

// A value that is not finite becomes zero, the largest value or itself. Its neighbors must not change.
TEST_P(EveryCodec, NonFiniteValuesDoNotChangeTheirNeighbors) {
  for_slots([](const TestedCodec& tested) {
    constexpr std::size_t kBad = 50;
    Floats x = spread(tested);
    x[kBad] = 0;
    const Floats good = tested.round_trip(x).values;
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      x[kBad] = bad;
      Floats stored = tested.round_trip(x).values;
      const float own = std::exchange(stored[kBad], good[kBad]);
      EXPECT_EQ(stored, good) << bad;
      if (replaced_for_vectors(tested)) continue;
      EXPECT_TRUE(!std::isfinite(own) || own == (tested.non_negative() ? 1 : 0)) << own;
    }
  });
}

TEST_P(EveryCodec, DependsOnTheSeedOnlyIfItIsStochastic) {
  for_slots([](const TestedCodec& tested) {
    if (replaced_for_vectors(tested)) return;
    const Floats x = spread(tested);
    EXPECT_EQ(tested.round_trip(x, 1), tested.round_trip(x, 1));
    EXPECT_EQ(tested.round_trip(x, 1).codes != tested.round_trip(x, 2).codes,
              tested.is_stochastic());
  });
}

// The two adjacent values occur with the right probabilities, to five standard deviations of 2^16 draws.
TEST_P(EveryCodec, StochasticRoundingKeepsTheMean) {
  constexpr int kDraws = 1 << 16;
  for_slots([](const TestedCodec& tested) {
    if (!tested.is_stochastic() || replaced_for_vectors(tested)) return;
    for (const float size : {0.0701f, 0.3f, 0.77f}) {
      const float x = tested.non_negative() ? size : -size;
      const Floats stored = stored_next_to_one(tested, Floats(kDraws, x));
      const auto [low, high] = std::minmax_element(stored.begin(), stored.end());
      EXPECT_LT(*low, x);
      EXPECT_GT(*high, x);
      const double most = std::abs(*high - *low) / 2 / std::sqrt(kDraws);  // standard deviation
      EXPECT_NEAR(std::accumulate(stored.begin(), stored.end(), 0.0) / kDraws, x, 5 * most) << x;
    }
  });
}

// Each codec with its defaults, and with each boolean option set to its other value.
std::vector<CodecAndSwitch> choices() {
  std::vector<CodecAndSwitch> all;
  for (const std::string& codec : jit::default_catalog().names(Kind::codec)) {
    all.emplace_back(codec, "");
    for (const jit::Option& option : jit::default_catalog().codec(codec).flags)
      if (option.type == jit::Option::Type::boolean) all.emplace_back(codec, option.name);
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<CodecAndSwitch>& choice) {
  const auto& [codec, switched] = choice.param;
  return switched.empty() ? codec : codec + "_" + switched + "_switched";
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryCodec, testing::ValuesIn(choices()), name_of);

}  // namespace
}  // namespace jitstep::support
