// Rates in closed form, comparisons with torch's schedulers, and saved state.
#include "jitstep/schedulers.h"

#include <cmath>
#include <numbers>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using torch::optim::OptimizerParamGroup;

// One group per rate.
template <class OptionsType>
std::vector<OptimizerParamGroup> groups_with(const std::vector<double>& lrs) {
  std::vector<OptimizerParamGroup> groups;
  for (const double lr : lrs)
    groups.emplace_back(make_parameters(torch::kFloat32, {{3}}), std::make_unique<OptionsType>(lr));
  return groups;
}

std::vector<double> lrs_of(const torch::optim::Optimizer& optimizer) {
  std::vector<double> lrs;
  for (const auto& group : optimizer.param_groups()) lrs.push_back(group.options().get_lr());
  return lrs;
}

// The rates of the first group at steps 0, 1, ..., as a training loop sees them.
template <class Scheduler>
std::vector<double> rates(torch::optim::Optimizer& optimizer, Scheduler& scheduler, int steps) {
  std::vector<double> out;
  for (int step = 0; step < steps; ++step) {
    out.push_back(lrs_of(optimizer).front());
    optimizer.step();
    scheduler.step();
  }
  return out;
}

void expect_rates(const std::vector<double>& rates, const std::vector<double>& expected) {
  ASSERT_EQ(rates.size(), expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-15) << i;
}

TEST(Schedulers, WarmUpAndDecayAreLinear) {
  AdamW optimizer(groups_with<AdamWOptions>({0.8}));
  PolynomialLR scheduler(optimizer, {.steps = 7, .warmup_steps = 3, .end_lr = 0.4});
  expect_rates(rates(optimizer, scheduler, 10), {0.2, 0.4, 0.6, 0.8, 0.7, 0.6, 0.5, 0.4, 0.4, 0.4});
}

TEST(Schedulers, PowerTwoIsAParabolaAsInLars) {
  LARS optimizer(groups_with<LARSOptions>({1}));
  PolynomialLR scheduler(optimizer, {.steps = 5, .warmup_steps = 1}, 2);
  expect_rates(rates(optimizer, scheduler, 6), {0.5, 1, 0.5625, 0.25, 0.0625, 0});
}

TEST(Schedulers, CosineFallsByHalfAWave) {
  AdamW optimizer(groups_with<AdamWOptions>({1}));
  CosineLR scheduler(optimizer, {.steps = 6, .warmup_steps = 2, .end_lr = 0.2});
  const double r = std::numbers::sqrt2 / 2;
  expect_rates(rates(optimizer, scheduler, 8),
               {1.0 / 3, 2.0 / 3, 1, 0.2 + 0.4 * (1 + r), 0.6, 0.2 + 0.4 * (1 - r), 0.2, 0.2});
}

// Steps of x = (k + 2) / 4: linear up to x = 1, then the power. The rule's own schedule is identical.
TEST(Schedulers, PreheatIsTheInternalScheduleOfAdamWBF16) {
  Lion optimizer(groups_with<LionOptions>({0.5}));
  PreheatLR scheduler(optimizer, 4, -0.5);
  expect_rates(rates(optimizer, scheduler, 4), {0.25, 0.375, 0.5, 0.5 / std::sqrt(1.25)});
  Tensors outside = make_parameters(), inside = clones(outside);
  AdamWBF16 a(outside, AdamWBF16Options(0.5).preheat_steps(1).decay_power(0));
  AdamWBF16 b(inside, AdamWBF16Options(0.5).preheat_steps(4).decay_power(-0.5));
  PreheatLR same(a, 4, -0.5);
  for (int step = 1; step <= 6; ++step) {
    train(a, outside, step, step);
    train(b, inside, step, step);
    same.step();
  }
  expect_close(outside, inside, 1e-6, 1e-6);
}

TEST(Schedulers, AFunctionOfTheStepMultipliesTheRate) {
  AdamW optimizer(groups_with<AdamWOptions>({2}));
  LambdaLR scheduler(optimizer, [](std::int64_t step) { return 1.0 / (1 << step); });
  expect_rates(rates(optimizer, scheduler, 4), {2, 1, 0.5, 0.25});
  EXPECT_EQ(scheduler.last_step(), 4);
}

TEST(Schedulers, GroupsKeepTheirRatioAndALaterOneStartsFromItsOwnRate) {
  Optimizer optimizer("adamw", groups_with<GenericOptions>({0.4, 0.2}));
  PolynomialLR scheduler(optimizer, {.steps = 4, .warmup_steps = 0, .end_lr = 0.1});
  scheduler.step();
  scheduler.step();
  const std::vector<double> half = lrs_of(optimizer);
  EXPECT_NEAR(half[0], 0.25, 1e-15);
  EXPECT_NEAR(half[1], 0.15, 1e-15);
  optimizer.add_param_group(groups_with<GenericOptions>({0.5}).front());
  scheduler.step();
  EXPECT_NEAR(lrs_of(optimizer)[2], 0.2, 1e-15);
  EXPECT_NEAR(lrs_of(optimizer)[0], 0.175, 1e-15);
}

TEST(Schedulers, ALateGroupBelowTheLastRateNeverGoesUp) {
  const WarmupDecay form{.steps = 4, .end_lr = 0.1};
  const auto expect_no_rise = [&](auto make) {
    AdamW optimizer(groups_with<AdamWOptions>({0.4}));
    auto scheduler = make(optimizer);
    optimizer.add_param_group(groups_with<AdamWOptions>({0.01}).front());
    for (int i = 0; i < 5; ++i) {
      scheduler.step();
      EXPECT_EQ(lrs_of(optimizer)[1], 0.01) << i;
    }
    EXPECT_EQ(lrs_of(optimizer)[0], 0.1);
  };
  expect_no_rise([&](auto& optimizer) { return PolynomialLR(optimizer, form); });
  expect_no_rise([&](auto& optimizer) { return CosineLR(optimizer, form); });
}

TEST(Schedulers, AGroupThatWasAddedAfterTheLastStepIsResumed) {
  const WarmupDecay form{.steps = 8, .warmup_steps = 3};
  AdamW optimizer(groups_with<AdamWOptions>({0.4})), other(groups_with<AdamWOptions>({0.4, 0.05}));
  CosineLR scheduler(optimizer, form), loaded(other, form);
  scheduler.step();
  optimizer.add_param_group(groups_with<AdamWOptions>({0.05}).front());
  std::stringstream file;
  torch::save(scheduler, file);
  other.param_groups()[1].options().set_lr(0.05);  // as the checkpoint of the optimizer does
  torch::load(loaded, file);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(lrs_of(other), lrs_of(optimizer)) << i;
    scheduler.step();
    loaded.step();
  }
}

// Compares the rates step by step, for every way to make an optimizer, and for groups of several rules.
template <class Scheduler, class Step>
void expect_as_torchs(const std::function<Scheduler(torch::optim::Optimizer&)>& make, Step step) {
  const std::vector<double> lrs{0.4, 0.05};
  AdamW typed(groups_with<AdamWOptions>(lrs));
  Optimizer generic("lamb", groups_with<GenericOptions>(lrs));
  torch::optim::AdamW theirs(groups_with<torch::optim::AdamWOptions>(lrs));
  Scheduler a = make(typed), b = make(generic), c = make(theirs);
  for (int i = 0; i < 12; ++i) {
    step(a, i);
    step(b, i);
    step(c, i);
    EXPECT_EQ(lrs_of(typed), lrs_of(theirs)) << i;
    EXPECT_EQ(lrs_of(generic), lrs_of(theirs)) << i;
  }
  EXPECT_LT(lrs_of(theirs)[0], 0.4);
}

TEST(Schedulers, TorchSchedulersDriveTypedAndGenericOptimizers) {
  expect_as_torchs<StepLR>([](auto& optimizer) { return StepLR(optimizer, 3, 0.5); },
                           [](StepLR& scheduler, int) { scheduler.step(); });
  using Plateau = ReduceLROnPlateauScheduler;
  expect_as_torchs<Plateau>(
      [](auto& optimizer) { return Plateau(optimizer, Plateau::min, 0.5, 2); },
      [](Plateau& scheduler, int i) { scheduler.step(i < 4 ? 1.0f / float(i + 1) : 1.0f); });
}

TEST(Schedulers, JitstepSchedulersDriveTorchsOptimizers) {
  torch::optim::SGD optimizer(groups_with<torch::optim::SGDOptions>({1, 0.5}),
                              torch::optim::SGDOptions(1));
  PolynomialLR scheduler(optimizer, {.steps = 2, .warmup_steps = 1});
  EXPECT_EQ(lrs_of(optimizer), (std::vector<double>{0.5, 0.25}));
  scheduler.step();
  EXPECT_EQ(lrs_of(optimizer), (std::vector<double>{1, 0.5}));
}

// An uninterrupted run of 9 steps, and one that is saved after 4 and continued by new objects.
TEST(Schedulers, ASavedRunContinuesBitForBit) {
  const auto options = LAMBOptions(0.3).weight_decay(0.1);
  const WarmupDecay form{.steps = 9, .warmup_steps = 2, .end_lr = 0.01};
  const auto train_with = [](LAMB& optimizer, PolynomialLR& scheduler, const Tensors& parameters,
                             int first, int last) {
    for (int step = first; step <= last; ++step) {
      train(optimizer, parameters, step, step);
      scheduler.step();
    }
  };
  Tensors whole = make_parameters(), parts = clones(whole);
  LAMB a(whole, options), b(parts, options);
  PolynomialLR whole_schedule(a, form), schedule(b, form);
  train_with(a, whole_schedule, whole, 1, 9);
  train_with(b, schedule, parts, 1, 4);
  std::stringstream optimizer_file, scheduler_file;
  torch::save(b, optimizer_file);
  torch::save(schedule, scheduler_file);
  LAMB c(parts, options);
  PolynomialLR later(c, form);
  torch::load(c, optimizer_file);
  torch::load(later, scheduler_file);
  EXPECT_EQ(later.last_step(), 4);
  EXPECT_EQ(lrs_of(c), lrs_of(b));
  train_with(c, later, parts, 5, 9);
  expect_equal(whole, parts);
}

TEST(Schedulers, ALoadedSchedulerSetsTheRateOfItsStep) {
  AdamW optimizer(groups_with<AdamWOptions>({0.8, 0.4})), other(groups_with<AdamWOptions>({7, 7}));
  const WarmupDecay form{.steps = 8};
  CosineLR scheduler(optimizer, form), loaded(other, form);
  for (int i = 0; i < 3; ++i) scheduler.step();
  std::stringstream file;
  torch::save(scheduler, file);
  torch::load(loaded, file);
  EXPECT_EQ(lrs_of(other), lrs_of(optimizer));
}

TEST(Schedulers, OtherArchivesAreErrorsAndChangeNothing) {
  AdamW one(groups_with<AdamWOptions>({0.8})), two(groups_with<AdamWOptions>({0.8, 0.4}));
  CosineLR cosine(one, {.steps = 8});
  PolynomialLR polynomial(one, {.steps = 8});
  CosineLR of_two(two, {.steps = 8});
  const auto loading = [&](auto& into, const auto& saved) {
    std::stringstream file;
    torch::save(saved, file);
    return argument_error([&] { torch::load(into, file); });
  };
  EXPECT_HAS(loading(cosine, polynomial), "a PolynomialLR and cannot be loaded into a CosineLR");
  EXPECT_HAS(loading(of_two, cosine), "of 1 parameter groups, but the optimizer has 2");
  EXPECT_HAS(loading(cosine, one), "contains no scheduler");
  EXPECT_EQ(cosine.last_step(), 0);
  EXPECT_EQ(lrs_of(one), std::vector<double>{0.8});
}

TEST(Schedulers, AFunctionThatThrowsInALoadChangesNothing) {
  AdamW one(groups_with<AdamWOptions>({0.8})), two(groups_with<AdamWOptions>({0.4}));
  bool throws = false;
  const auto half_at_2 = [&](std::int64_t step) {
    if (throws) throw std::runtime_error("no rate");
    return step == 2 ? 0.5 : 1.0;
  };
  LambdaLR saved(one, half_at_2), loaded(two, half_at_2);
  saved.step(), saved.step();
  std::stringstream file;
  torch::save(saved, file);
  throws = true;
  EXPECT_THROW(torch::load(loaded, file), std::runtime_error);
  throws = false;
  EXPECT_EQ(loaded.last_step(), 0);
  EXPECT_EQ(lrs_of(two), std::vector<double>{0.4});
  two.add_param_group(groups_with<AdamWOptions>({0.2})[0]);
  loaded.step(), loaded.step();
  EXPECT_EQ(lrs_of(two), (std::vector<double>{0.2, 0.1})) << "the late group has a rate, too";
}

TEST(Schedulers, ARemovedGroupIsAnError) {
  AdamW optimizer(groups_with<AdamWOptions>({0.8, 0.4}));
  CosineLR scheduler(optimizer, {.steps = 8});
  optimizer.param_groups().pop_back();
  EXPECT_HAS(argument_error([&] { scheduler.step(); }), "CosineLR");
}

TEST(Schedulers, NumbersOutOfRangeAreErrorsThatNameTheRange) {
  AdamW optimizer(groups_with<AdamWOptions>({0.8}));
  const auto error = [&](const WarmupDecay& form, double power = 1) {
    return argument_error([&] { PolynomialLR(optimizer, form, power); });
  };
  EXPECT_HAS(error({}), "steps is 0, but warmup_steps is 0");
  EXPECT_HAS(error({.steps = 5, .warmup_steps = 5}), "steps is 5, but warmup_steps is 5");
  EXPECT_HAS(error({.steps = 5, .warmup_steps = -1}), "warmup_steps is -1");
  const std::string end_lr = error({.steps = 5, .end_lr = 0.9});
  EXPECT_HAS(end_lr, "end_lr is 0.9");
  EXPECT_HAS(end_lr, "in [0, 0.8]");
  EXPECT_HAS(error({.steps = 5, .end_lr = NAN}), "end_lr is nan");
  EXPECT_HAS(error({.steps = 5}, 0), "power is 0");
  EXPECT_HAS(argument_error([&] { PreheatLR(optimizer, 0); }), "preheat_steps is 0");
  EXPECT_HAS(argument_error([&] { PreheatLR(optimizer, 5, 0.5); }), "decay_power is 0.5");
  EXPECT_HAS(argument_error([&] { LambdaLR(optimizer, nullptr); }), "an empty function");
  EXPECT_EQ(lrs_of(optimizer), std::vector<double>{0.8});
}

}  // namespace
}  // namespace jitstep::tests
