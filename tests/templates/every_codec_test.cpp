// What holds of every state format, whichever the folder has: what a value becomes when it is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "support/plain_steps.h"
#include "templates/neighbours.h"

namespace jitstep::support {
namespace {

using Kind = jit::Manifest::Kind;
using Floats = std::vector<float>;

// Keeps the gradient, in a slot of either sign, and puts what it has kept into the parameter.
const std::map<std::string, std::string> kKeeper = {{"rules/keeper.cuh", R"(// A probe.
#pragma once
#include "../core/contract.cuh"
namespace jitstep::rules::keeper {
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

// One codec with its options, by what it makes of values.
class Keeper {
 public:
  Keeper(OwnTemplates& own, jit::CpuBackend& cpu, const jit::CodecChoice& codec, bool non_negative)
      : own_(own), cpu_(cpu), codec_(codec), options_("keeper", own.catalog) {
    options_.set("non_negative", non_negative);
  }

  // The values as they come back, and what was stored for them.
  struct Kept {
    Floats values;
    std::vector<std::uint8_t> codes;
    bool operator==(const Kept&) const = default;
  };
  Kept keep(const Floats& x, std::uint64_t seed = 0) const {
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
    Kept kept{{}, {codes, codes + layout.codes}};
    steps.step(2);
    kept.values = steps.p[0];
    return kept;
  }

  const jit::Manifest& codec() const { return own_.catalog.codec(codec_.name); }
  // Whether codes are drawn, always or by choice.
  bool draws() const {
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

// A codec, and which of its options that are true or false is the other way than by default, if one is.
using CodecAndSwitch = std::pair<std::string, std::string>;

class EveryCodec : public testing::TestWithParam<CodecAndSwitch> {
 protected:
  // For a slot of each sign.
  template <class Check>
  void for_slots(const Check& check) {
    for (const bool non_negative : {false, true}) {
      SCOPED_TRACE(non_negative ? "non-negative" : "signed");
      check(Keeper(own_, cpu_, choice(), non_negative));
    }
  }
  Keeper in_blocks_of(int block, bool non_negative) {
    return Keeper(own_, cpu_, {GetParam().first, {{"block", block}}}, non_negative);
  }

 private:
  jit::CodecChoice choice() const {
    const auto& [codec, turned] = GetParam();
    if (turned.empty()) return {codec};
    const bool default_config = own_.catalog.codec(codec).find(turned)->initial.boolean();
    return {codec, {{turned, !default_config}}};
  }

  OwnTemplates own_{kKeeper};
  jit::CpuBackend cpu_{own_.engine};
};

// Values over some decades, of both signs if they may be, 1 the largest of every 32: whole blocks, and one
// that is not.
Floats spread(const Keeper& keeper, std::size_t size = 4096 + 7) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> decade(-5, 0), side(0, 1);
  Floats x(size);
  for (std::size_t i = 0; i < size; ++i) {
    x[i] = i % 32 == 0 ? 1 : std::pow(10.0f, decade(random)) * 0.999f;
    if (!keeper.non_negative() && i % 32 != 0 && side(random) < 0.5f) x[i] = -x[i];
  }
  return x;
}

Floats times(Floats x, float factor) {
  for (float& one : x) one *= factor;
  return x;
}

// Whether a value may depend on others than those of its block, by sums over rows or the tensor.
bool takes_sums(const Keeper& keeper) { return !keeper.codec().reductions.empty(); }
// LAMB16's format cuts off at sizes that do not go with the values, and its norm goes with what is cut off.
bool has_a_size_of_its_own(const Keeper& keeper) { return keeper.codec().name == "fp8_norm"; }
// Whether it ends where numbers that a float holds go on.
bool has_few_exponents(const Keeper& keeper) { return keeper.codec().name == "fp16"; }
// Whether a block's values depend on how small the others are: COAT's, whose own values may move that.
bool fits_itself_to_the_smallest(const Keeper& keeper) {
  return keeper.codec().name == "fp8_expanded";
}
// Whether vectors, which these are, go by another codec: along its only dimension each value would be its own scale.
bool is_not_for_vectors(const Keeper& keeper) { return !keeper.codec().vectors.empty(); }
// Whether a block, or more, has a scale of its own.
bool is_scaled(const Keeper& keeper) { return !keeper.codec().meta.empty() || takes_sums(keeper); }

// A power of four: a codec may keep roots.
TEST_P(EveryCodec, ScalesWithAPowerOfTwo) {
  for_slots([](const Keeper& keeper) {
    if (has_a_size_of_its_own(keeper) || has_few_exponents(keeper)) return;
    const Floats x = spread(keeper);
    const Keeper::Kept kept = keeper.keep(x);
    for (const float factor : {0x1p-20f, 0x1p14f}) {
      const Keeper::Kept scaled = keeper.keep(times(x, factor));
      EXPECT_EQ(scaled.values, times(kept.values, factor)) << factor;
      EXPECT_TRUE(!is_scaled(keeper) || scaled.codes == kept.codes) << factor;
    }
  });
}

// The values that a block with the largest magnitude 1 can hold, as far as a fine sweep meets them.
Floats values_of(const Keeper& keeper) {
  constexpr int kSteps = 40000;
  Floats sweep = {1, 0};
  for (int i = 2; i < kSteps; ++i) {
    const float x = i % 32 == 0 ? 1 : std::pow(10.0f, -7 * static_cast<float>(i) / kSteps);
    sweep.push_back(i % 2 == 1 && !keeper.non_negative() ? -x : x);
  }
  Floats values = keeper.keep(sweep).values;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Whatever the rounding, an error is smaller than the gap that the value lies in.
TEST_P(EveryCodec, GivesOneOfTheTwoValuesNextToWhatItKeeps) {
  for_slots([](const Keeper& keeper) {
    if (takes_sums(keeper) || fits_itself_to_the_smallest(keeper)) return;
    const Floats known = values_of(keeper), x = spread(keeper), kept = keeper.keep(x).values;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto above = std::lower_bound(known.begin(), known.end(), x[i]);
      const float high = above == known.end() ? known.back() : *above;
      const float low = above == known.begin() ? known.front() : *(above - 1);
      ASSERT_TRUE(kept[i] >= std::min(low, x[i]) && kept[i] <= std::max(high, x[i]))
          << x[i] << " became " << kept[i] << ", not between " << low << " and " << high;
    }
  });
}

// What each of these becomes in a block whose largest magnitude is 1.
Floats kept_beside_one(const Keeper& keeper, const Floats& x) {
  constexpr std::size_t kOthers = 31;
  Floats blocks;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % kOthers == 0) blocks.push_back(1);
    blocks.push_back(x[i]);
  }
  const Floats all = keeper.keep(blocks).values;
  Floats kept;
  for (std::size_t i = 0; i < x.size(); ++i) kept.push_back(all[i + i / kOthers + 1]);
  return kept;
}

// What becomes one value is an interval: about its end, six floats on either side, none strays.
TEST_P(EveryCodec, ChangesWhatItKeepsAtOnePlaceBetweenTwoValues) {
  for_slots([](const Keeper& keeper) {
    if (takes_sums(keeper) || fits_itself_to_the_smallest(keeper) || keeper.draws()) return;
    const Floats values = values_of(keeper);
    const auto keep = [&](const Floats& x) { return kept_beside_one(keeper, x); };
    if (keep({0.3f, 0.7f}) == Floats{0.3f, 0.7f}) return;  // as it is: there are no places between
    const Floats thresholds = thresholds_of(values, keep);
    const Floats from = keep(thresholds);
    Floats near, wanted;
    for (std::size_t i = 0; i < thresholds.size(); ++i)
      for (const float x : around(thresholds[i])) {
        near.push_back(x);
        wanted.push_back(x < thresholds[i] ? values[i] : from[i]);
      }
    const Floats kept = keep(near);
    for (std::size_t i = 0; i < near.size(); ++i) ASSERT_EQ(kept[i], wanted[i]) << near[i];
    EXPECT_GT(near.size(), 13u * 14) << "of the fewest values, sixteen";
  });
}

TEST_P(EveryCodec, KeepsWhatItGaveBackAsItIs) {
  for_slots([](const Keeper& keeper) {
    if (has_a_size_of_its_own(keeper) || fits_itself_to_the_smallest(keeper) ||
        is_not_for_vectors(keeper))
      return;
    const Keeper::Kept once = keeper.keep(spread(keeper));
    EXPECT_EQ(keeper.keep(once.values), once);
  });
}

// Zeros behind the end, up to whole blocks, change nothing before it.
TEST_P(EveryCodec, KeepsABlockThatIsNotWholeAsOneFilledUpWithZeros) {
  for_slots([](const Keeper& keeper) {
    if (takes_sums(keeper)) return;
    for (const std::size_t size : {1, 127, 129, 255, 257, 4095, 4096, 4097}) {
      Floats whole = spread(keeper, size);
      const Floats part = keeper.keep(whole).values;
      whole.resize(8192);
      const Floats all = keeper.keep(whole).values;
      EXPECT_EQ(part, Floats(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size))) << size;
    }
    EXPECT_TRUE(keeper.keep({}).values.empty());
  });
}

// The least and the most elements that a block may have.
std::vector<int> block_sizes(const jit::Manifest& codec) {
  const jit::Option* const block = codec.find("block");
  if (block == nullptr) return {};
  return {static_cast<int>(*block->constraint.low), static_cast<int>(*block->constraint.high)};
}

TEST_P(EveryCodec, SharesAScaleInBlocksOfTheSizeThatIsAskedForAndNoFurther) {
  if (!GetParam().second.empty()) return;
  for_slots([this](const Keeper& default_config) {
    if (is_not_for_vectors(default_config)) return;
    for (const int block : block_sizes(default_config.codec())) {
      SCOPED_TRACE(block);
      const Keeper keeper = in_blocks_of(block, default_config.non_negative());
      Floats x(static_cast<std::size_t>(3 * block), 0.00123f);
      const Floats before = keeper.keep(x).values;
      x[0] = 4096;
      const Floats after = keeper.keep(x).values;
      const auto end = static_cast<std::ptrdiff_t>(block);
      EXPECT_NE(after[static_cast<std::size_t>(block - 1)], before[0]);
      EXPECT_EQ(Floats(after.begin() + end, after.end()),
                Floats(before.begin() + end, before.end()));
    }
  });
}

// A number that is not finite is a zero, the largest value or itself, and harms no neighbour.
TEST_P(EveryCodec, KeepsNeighboursOfWhatIsNotFinite) {
  for_slots([](const Keeper& keeper) {
    constexpr std::size_t kHurt = 50;
    Floats x = spread(keeper);
    x[kHurt] = 0;
    const Floats well = keeper.keep(x).values;
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      x[kHurt] = bad;
      Floats kept = keeper.keep(x).values;
      const float own = std::exchange(kept[kHurt], well[kHurt]);
      EXPECT_EQ(kept, well) << bad;
      if (is_not_for_vectors(keeper)) continue;
      EXPECT_TRUE(!std::isfinite(own) || own == (keeper.non_negative() ? 1 : 0)) << own;
    }
  });
}

TEST_P(EveryCodec, DependsOnTheSeedWhereItDrawsAndOnlyThere) {
  for_slots([](const Keeper& keeper) {
    if (is_not_for_vectors(keeper)) return;
    const Floats x = spread(keeper);
    EXPECT_EQ(keeper.keep(x, 1), keeper.keep(x, 1));
    EXPECT_EQ(keeper.keep(x, 1).codes != keeper.keep(x, 2).codes, keeper.draws());
  });
}

// Of two values with the probabilities that make it so: to five standard deviations of 2^16 draws.
TEST_P(EveryCodec, KeepsTheMeanWhereItDraws) {
  constexpr int kDraws = 1 << 16;
  for_slots([](const Keeper& keeper) {
    if (!keeper.draws() || is_not_for_vectors(keeper)) return;
    for (const float size : {0.0701f, 0.3f, 0.77f}) {
      const float x = keeper.non_negative() ? size : -size;
      const Floats kept = kept_beside_one(keeper, Floats(kDraws, x));
      const auto [low, high] = std::minmax_element(kept.begin(), kept.end());
      EXPECT_LT(*low, x);
      EXPECT_GT(*high, x);
      const double most = std::abs(*high - *low) / 2 / std::sqrt(kDraws);  // standard deviation
      EXPECT_NEAR(std::accumulate(kept.begin(), kept.end(), 0.0) / kDraws, x, 5 * most) << x;
    }
  });
}

// As it is by default, and with each of its switches turned.
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
  const auto& [codec, turned] = choice.param;
  return turned.empty() ? codec : codec + "_" + turned + "_turned";
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryCodec, testing::ValuesIn(choices()), name_of);

}  // namespace
}  // namespace jitstep::support
