// Step counting on the device, which CUDA graphs need, and learning rates in tensors. These tests run on a CPU, which
// executes steps at once.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {{70, 60}, {3}, {0}, {}};

// Two optimizers of one rule with equal parameters. The device counts the steps of one of them.
struct Pair {
  explicit Pair(const std::string& rule) : Pair(make_parameters(torch::kFloat32, kShapes), rule) {}
  Pair(const Tensors& parameters, const std::string& rule)
      : uncounted(clones(parameters)),
        counted(clones(parameters)),
        host(rule, uncounted),
        device(rule, counted) {
    device.capturable();
  }

  void train(int first, int last) {
    tests::train(host, uncounted, first, last);
    tests::train(device, counted, first, last);
  }
  // A step of some parameters. The others have no gradient.
  void train_some(int number, const std::function<bool(std::size_t)>& takes_part) {
    for (const auto& [optimizer, parameters] :
         {std::pair{&host, &uncounted}, std::pair{&device, &counted}}) {
      set_gradients(*parameters, number);
      for (std::size_t i = 0; i < parameters->size(); ++i)
        if (!takes_part(i)) (*parameters)[i].mutable_grad().reset();
      optimizer->step();
    }
  }
  void expect_equal() const { tests::expect_equal(uncounted, counted); }

  Tensors uncounted, counted;
  Optimizer host, device;
};

TEST(Capturable, StepsHaveTheSameBitsForEveryRule) {
  for (const std::string& rule : shipped(jit::Manifest::Kind::rule)) {
    if (!jit::default_catalog().rule(rule).transforms.empty()) continue;  // only matrices
    SCOPED_TRACE(rule);
    Pair pair(rule);
    pair.train(1, 4);
    pair.expect_equal();
    for (const auto& p : pair.counted) EXPECT_EQ(state_of(pair.device, p).step(), 4);
  }
}

TEST(Capturable, MayBeSwitchedOnAndOffAtAnyTime) {
  Pair pair("prodigy");
  EXPECT_TRUE(pair.device.is_capturable());
  for (int step = 1; step <= 8; ++step) {
    pair.device.capturable(step % 3 != 0);
    pair.train(step, step);
    pair.expect_equal();
    EXPECT_EQ(pair.device.aux_state("d"), pair.host.aux_state("d"));
  }
}

// Prodigy's steps do not depend on the step number, those of AdamW do.
TEST(Capturable, StepNumbersContinueWhenItIsSwitchedOnAndOff) {
  Pair pair("adamw");
  for (int step = 1; step <= 9; ++step) {
    pair.device.capturable(step % 4 < 2);  // two steps in each mode
    pair.train(step, step);
    pair.expect_equal();
  }
  for (const auto& p : pair.counted) EXPECT_EQ(state_of(pair.device, p).step(), 9);
}

TEST(Capturable, ParametersThatGetTheirFirstGradientLateCountTheirOwnSteps) {
  Pair pair("adamw");
  pair.train_some(1, [](std::size_t parameter) { return parameter == 0; });
  pair.train(2, 3);
  pair.expect_equal();
  EXPECT_EQ(state_of(pair.device, pair.counted[0]).step(), 3);
  EXPECT_EQ(state_of(pair.device, pair.counted[1]).step(), 2);
}

TEST(Capturable, InactiveParametersCountNoStep) {
  Pair pair("adamw");
  pair.train(1, 1);
  pair.train_some(2, [](std::size_t parameter) { return parameter != 0; });
  pair.train(3, 3);
  pair.expect_equal();
  EXPECT_EQ(state_of(pair.device, pair.counted[0]).step(), 2);
  EXPECT_EQ(state_of(pair.device, pair.counted[1]).step(), 3);
}

TEST(Capturable, TheStepNumberMayBeSet) {
  Pair pair("adamw");
  pair.train(1, 2);
  for (const auto& p : pair.uncounted) state_of(pair.host, p).step() = 50;
  for (const auto& p : pair.counted) state_of(pair.device, p).step() = 50;
  pair.train(3, 4);
  pair.expect_equal();
  EXPECT_EQ(state_of(pair.device, pair.counted[0]).step(), 52);
  state_of(pair.device, pair.counted[0]).step() = -1;
  set_gradients(pair.counted, 5);
  EXPECT_HAS(argument_error([&] { pair.device.step(); }), "step is -1");
}

TEST(Capturable, CheckpointsHaveTheDevicesStepNumber) {
  Pair pair("adamw");
  pair.train(1, 3);
  const Tensors parameters = clones(pair.counted);
  Optimizer resumed("adamw", parameters);
  copy_through_archive(pair.device, resumed);
  EXPECT_EQ(state_of(resumed, parameters[0]).step(), 3);
  train(resumed, parameters, 4, 5);
  pair.train(4, 5);
  expect_equal(parameters, pair.counted);
}

TEST(Capturable, StepCountsContinueFromALoadedCheckpoint) {
  Pair pair("adamw");
  pair.train(1, 3);
  copy_through_archive(pair.host, pair.device);
  pair.train(4, 5);
  pair.expect_equal();
}

TEST(Capturable, SkippedStepsAreNotCounted) {
  Pair pair("prodigy");
  const auto found = torch::zeros({1});
  pair.device.set_found_inf(found);
  for (int step = 1; step <= 5; ++step) {
    if (step % 2 == 0) {
      found.fill_(1);
      set_gradients(pair.counted, 100);
      pair.device.step();
      found.zero_();
    }
    pair.train(step, step);
  }
  pair.expect_equal();
  for (const auto& p : pair.counted) EXPECT_EQ(state_of(pair.device, p).step(), 5);
  EXPECT_EQ(pair.device.aux_state("d"), pair.host.aux_state("d"));
}

TEST(Capturable, SharedStateMayBeSet) {
  Pair pair("prodigy");
  pair.train(1, 2);
  pair.host.set_aux_state("d", 0.5);
  pair.device.set_aux_state("d", 0.5);
  EXPECT_EQ(pair.device.aux_state("d"), 0.5);
  pair.train(3, 4);
  pair.expect_equal();
}

TEST(Capturable, ModesSwitchAsWithoutCapture) {
  Pair pair("schedulefree_adamw");
  pair.train(1, 3);
  pair.host.eval();
  pair.device.eval();
  pair.expect_equal();
  pair.host.train();
  pair.device.train();
  pair.train(4, 4);
  pair.expect_equal();
}

TEST(Capturable, StepsInsideBackwardAreCounted) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{5, 3}});
  Pair pair(parameters, "adamw");
  pair.device.step_in_backward();
  for (int step = 0; step < 3; ++step) {
    (pair.uncounted[0] * pair.uncounted[0]).sum().backward();
    pair.host.step();
    pair.host.zero_grad();
    (pair.counted[0] * pair.counted[0]).sum().backward();
  }
  pair.expect_equal();
  EXPECT_EQ(state_of(pair.device, pair.counted[0]).step(), 3);
}

TEST(Capturable, AStateThatMovesToAnotherOptimizerIsCountedByTheHost) {
  Pair pair("adamw");
  pair.train(1, 2);
  const Tensors parameters = clones(pair.counted);
  Optimizer other("adamw", parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    other.state()[parameters[i].unsafeGetTensorImpl()] =
        std::move(pair.device.state()[pair.counted[i].unsafeGetTensorImpl()]);
  train(other, parameters, 3, 4);
  tests::train(pair.host, pair.uncounted, 3, 4);
  expect_equal(parameters, pair.uncounted);
}

// ---- learning rates in tensors ----

TEST(LearningRateTensor, IsReadByEveryStep) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    Pair pair("adamw");
    const auto lr = torch::zeros({}, dtype);
    pair.device.set_lr(lr);
    for (int step = 1; step <= 3; ++step) {
      const double value = 0.5 / step;  // exact in float, except for the last
      lr.fill_(value);
      pair.host.param_groups()[0].options().set_lr(lr.to(torch::kFloat64).item<double>());
      pair.train(step, step);
    }
    pair.expect_equal();
    pair.device.set_lr(torch::Tensor());
    pair.device.param_groups()[0].options().set_lr(0.5 / 3);
    pair.host.param_groups()[0].options().set_lr(0.5 / 3);
    pair.train(4, 4);
    pair.expect_equal();
  }
}

TEST(LearningRateTensor, BelongsToItsGroup) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{3}, {3}});
  const Tensors before = clones(parameters);
  AdamW optimizer(std::vector<Optimizer::ParamGroup>{Optimizer::ParamGroup({parameters[0]}),
                                                     Optimizer::ParamGroup({parameters[1]})});
  optimizer.set_lr(1, torch::zeros({1}));
  train(optimizer, parameters, 1, 1);
  EXPECT_FALSE(torch::equal(parameters[0], before[0]));
  EXPECT_TRUE(torch::equal(parameters[1], before[1]));
}

TEST(LearningRateTensor, StaysWithItsParametersIfGroupsAreRemovedOrReordered) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{3}, {3}, {3}});
  const auto group = [&](std::size_t i) { return Optimizer::ParamGroup({parameters[i]}); };
  AdamW optimizer(std::vector<Optimizer::ParamGroup>{group(0), group(1), group(2)});
  optimizer.set_lr(0, torch::full({1}, 0.5F));
  optimizer.set_lr(1, torch::zeros({1}));
  auto& groups = optimizer.param_groups();
  groups.erase(groups.begin());
  std::swap(groups[0].params(), groups[1].params());
  const Tensors before = clones(parameters);
  train(optimizer, parameters, 1, 1);
  EXPECT_TRUE(torch::equal(parameters[1], before[1])) << "its rate is 0";
  EXPECT_FALSE(torch::equal(parameters[2], before[2]));
  EXPECT_TRUE(torch::allclose(parameters[2], before[2], 0, 0.01)) << "the option's rate is 0.001";
}

TEST(LearningRateTensor, IsRejectedIfItsShapeDtypeOrGroupIsInvalid) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  EXPECT_HAS(argument_error([&] { optimizer.set_lr(torch::zeros({2})); }), "float32 or float64");
  EXPECT_HAS(argument_error([&] { optimizer.set_lr(torch::zeros({}, torch::kInt64)); }),
             "float32 or float64");
  EXPECT_HAS(argument_error([&] { optimizer.set_lr(3, torch::zeros({})); }),
             "number of groups is 1");
}

// Some threads may read the rate after another one wrote the parameter. They would step with another rate.
TEST(LearningRateTensor, IsRejectedBeforeTheStepIfItSharesMemoryWithAParameter) {
  for (const bool stepped : {false, true}) {
    const Tensors parameters = make_parameters();
    AdamW optimizer(parameters);
    if (stepped) train(optimizer, parameters, 1, 1);
    const Tensors before = clones(parameters);
    optimizer.set_lr(parameters[0].detach()[2][1]);
    set_gradients(parameters, 2);
    EXPECT_HAS(argument_error([&] { optimizer.step(); }),
               "the lr of group 0 shares memory with parameter 0 of group 0 (float32 [5, 3])");
    optimizer.set_lr(torch::Tensor());
    optimizer.set_found_inf(parameters[1].detach()[0]);
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "found_inf shares memory with");
    optimizer.set_found_inf({});
    optimizer.set_grad_scale(parameters[2].detach());
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "grad_scale shares memory with");
    expect_equal(parameters, before);
    optimizer.set_grad_scale({});
    EXPECT_NO_THROW(optimizer.step());
  }
}

TEST(LearningRateTensor, IsRejectedIfItSharesMemoryWithAGradientThatTheStepClears) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  optimizer.zero_grad_in_step();
  set_gradients(parameters, 1);
  optimizer.step();
  const torch::Tensor shared = torch::full({6}, 0.25);
  optimizer.set_lr(shared[3]);
  parameters[1].mutable_grad() = shared.slice(0, 3, 6);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "zero_grad_in_step()");
  optimizer.set_lr(shared[2]);
  EXPECT_NO_THROW(optimizer.step());
}

}  // namespace
}  // namespace jitstep::tests
