#include "tuning/strategies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "jitstep/jit/error.h"
#include "tuning/fake_device.h"

namespace jitstep::tuning {
namespace {

using jit::KernelConfig;
using jit::Trial;

jit::ConfigSpace space() {
  return jit::config_space(jit::testing::adamw_plan(), jit::testing::abacus());
}

// All configurations that a strategy proposes. `ratio` is the relative time of each.
std::vector<KernelConfig> proposed(const jit::Strategy& strategy,
                                   const std::function<double(const KernelConfig&)>& ratio) {
  std::vector<Trial> trials;
  std::vector<KernelConfig> order;
  while (const auto next = strategy(trials)) {
    order.push_back(*next);
    Trial trial{.config = *next};
    trial.times = {.rounds = 9, .ratio = ratio(*next)};
    trials.push_back(trial);
    if (order.size() > 10000) throw jit::Error("the strategy does not end");
  }
  return order;
}

double no_gain(const KernelConfig&) { return 1; }

TEST(Strategies, ExhaustiveAndRandomTryEveryConfigOnceExceptTheDefault) {
  const jit::ConfigSpace all = space();
  const std::set<KernelConfig> whole = [&] {
    const auto list = all.all();
    return std::set<KernelConfig>(list.begin() + 1, list.end());
  }();
  const Model model = cpu_model(jit::testing::abacus(), {1 << 20, 1});
  for (const char* name : {"exhaustive", "random"}) {
    const auto order = proposed(make_strategy(name, all, model), no_gain);
    EXPECT_EQ(order.size(), whole.size()) << name;
    EXPECT_EQ(std::set<KernelConfig>(order.begin(), order.end()), whole) << name;
  }
}

TEST(Strategies, ExhaustiveFollowsTheModelAndRandomItsSeed) {
  const Model model = [](const KernelConfig& v) { return -v.leaves_per_item; };
  EXPECT_EQ(proposed(make_strategy("exhaustive", space(), model), no_gain).front().leaves_per_item,
            256);
  const auto first = proposed(make_strategy("random", space(), model, 1), no_gain);
  EXPECT_EQ(proposed(make_strategy("random", space(), model, 1), no_gain), first);
  EXPECT_NE(proposed(make_strategy("random", space(), model, 2), no_gain), first);
  const Model other = [](const KernelConfig& v) { return v.leaves_per_item; };
  EXPECT_EQ(proposed(make_strategy("random", space(), other, 1), no_gain), first);
}

TEST(Strategies, LocalStartsFromTheModelsBestAndClimbs) {
  const Model model = [](const KernelConfig& v) {
    return v.leaves_per_item == 256 && v.unroll == 0 ? 0.0 : 1.0;
  };
  const auto uphill = [](const KernelConfig& v) {
    return 1 - 0.1 * v.unroll - 0.1 * v.simd_bits / 512 - 0.1 * (256 - v.leaves_per_item) / 252;
  };
  const auto order = proposed(make_strategy("local", space(), model), uphill);
  EXPECT_EQ(order.front().leaves_per_item, 256);
  const auto found = std::find_if(order.begin(), order.end(),
                                  [&](const KernelConfig& v) { return uphill(v) < 0.71; });
  EXPECT_NE(found, order.end()) << "three changes away";
  EXPECT_LT(order.size(), space().all().size() / 2);
}

TEST(Strategies, AnUnknownNameIsAnErrorWithTheValidNames) {
  try {
    make_strategy("luck", space(), [](const KernelConfig&) { return 0.0; });
    FAIL();
  } catch (const jit::Error& error) {
    EXPECT_STREQ(error.what(), "unknown strategy \"luck\". Strategies: exhaustive, random, local.");
  }
}

TEST(Model, OfTheCpuCountsTheCostOfLastItems) {
  const Model small = cpu_model(jit::testing::abacus(4), {8192, 1});
  EXPECT_LT(small({1, 1, 256, 8}), small({1, 1, 256, 32})) << "one item leaves three threads idle";
  const Model large = cpu_model(jit::testing::abacus(4), {1 << 28, 1});
  EXPECT_GT(large({1, 1, 256, 4}), large({1, 1, 256, 64})) << "each item has a fixed cost";
  EXPECT_GT(large({1, 1, 256, 64, 0, 0, 0, 1}), 3 * large({1, 1, 256, 64})) << "one thread of four";
}

TEST(Model, OfAGpuCountsResidencyAndSpills) {
  std::vector<jit::Resources> resources = {{.entry = "jitstep_apply", .registers = 32}};
  const auto cost = [&](const KernelConfig& v) {
    return gpu_model([&](const KernelConfig&) { return resources; }, 16)(v);
  };
  const KernelConfig default_config = {256, 32, 4, 16};
  EXPECT_EQ(cost(default_config), 1) << "memory bandwidth is the limit";
  EXPECT_EQ(cost({256, 32, 1, 16}), 1);
  resources[0].registers = 255;
  EXPECT_GT(cost({256, 32, 1, 16}), cost({256, 32, 4, 16}));
  EXPECT_TRUE(std::isinf(cost({512, 32, 4, 16})));
  resources[0] = {.entry = "jitstep_apply", .registers = 32, .spill_load_bytes = 8};
  EXPECT_EQ(cost(default_config), 2);
}

}  // namespace
}  // namespace jitstep::tuning
