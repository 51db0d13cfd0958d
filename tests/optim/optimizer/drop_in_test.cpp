// The classes that torch has too give torch's results.
#include <torch/nn.h>

#include "optim/training.h"

#include <cmath>
#include <map>

namespace jitstep::tests {
namespace {

template <class Ours, class OurOptions, class Theirs, class TheirOptions>
void follows_torch(const OurOptions& our_options, const TheirOptions& their_options,
                   torch::Dtype dtype, double rtol) {
  Tensors ours = make_parameters(dtype), theirs = clones(ours);
  Ours a(ours, our_options);
  Theirs b(theirs, their_options);
  for (int step = 1; step <= 30; ++step) {
    train(a, ours, step, step);
    train(b, theirs, step, step);
    expect_close(ours, theirs, rtol, rtol);
  }
}

// float64 must agree to rounding, float32 to a few ulps.
#define FOLLOWS_TORCH(name, options)                                                               \
  follows_torch<jitstep::name, jitstep::name##Options, torch::optim::name,                         \
                torch::optim::name##Options>(jitstep::name##Options options,                       \
                                             torch::optim::name##Options options, torch::kFloat64, \
                                             1e-12);                                               \
  follows_torch<jitstep::name, jitstep::name##Options, torch::optim::name,                         \
                torch::optim::name##Options>(                                                      \
      jitstep::name##Options options, torch::optim::name##Options options, torch::kFloat32, 1e-5)

TEST(DropIn, SgdFollowsTorch) {
  FOLLOWS_TORCH(SGD, (0.1));
  FOLLOWS_TORCH(SGD, (0.1).weight_decay(1e-2));
  FOLLOWS_TORCH(SGD, (0.1).weight_decay(1e-2).momentum(0.9));
  FOLLOWS_TORCH(SGD, (0.1).momentum(0.9).dampening(0.3));
  FOLLOWS_TORCH(SGD, (0.1).weight_decay(1e-6).momentum(0.9).nesterov(true));
}

TEST(DropIn, AdamFollowsTorch) {
  FOLLOWS_TORCH(Adam, (0.1));
  FOLLOWS_TORCH(Adam, (0.1).weight_decay(1e-2));
  FOLLOWS_TORCH(Adam, (0.1).weight_decay(1e-6).amsgrad(true));
  FOLLOWS_TORCH(Adam, (0.1).betas({0.5, 0.7}).eps(1e-3));
}

TEST(DropIn, AdamWFollowsTorch) {
  FOLLOWS_TORCH(AdamW, (0.1));
  FOLLOWS_TORCH(AdamW, (0.1).weight_decay(0));
  FOLLOWS_TORCH(AdamW, (0.1).amsgrad(true));
}

template <class Optimizer, class Options>
void learns_xor(const Options& options) {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(2, 8), torch::nn::Sigmoid(),
                              torch::nn::Linear(8, 1), torch::nn::Sigmoid());
  Optimizer optimizer(model->parameters(), options);
  const auto inputs = torch::tensor({{0., 0.}, {0., 1.}, {1., 0.}, {1., 1.}}, torch::kFloat32);
  const auto labels = torch::tensor({{0.}, {1.}, {1.}, {0.}}, torch::kFloat32);
  double loss = 1;
  for (int epoch = 0; loss > 0.1 && epoch < 3000; ++epoch) {
    const torch::Tensor result = optimizer.step([&] {
      optimizer.zero_grad();
      auto out = torch::binary_cross_entropy(model->forward(inputs), labels);
      out.backward();
      return out;
    });
    loss = result.template item<double>();
  }
  EXPECT_LE(loss, 0.1);
}

TEST(DropIn, XorIsLearned) {
  learns_xor<SGD>(SGDOptions(0.5).momentum(0.9).nesterov(true).weight_decay(1e-6));
  learns_xor<Adam>(AdamOptions(0.1).weight_decay(1e-6).amsgrad(true));
  learns_xor<AdamW>(AdamWOptions(0.1));
}

TEST(DropIn, AClosureRunsWithGradientsAndItsResultIsReturned) {
  Tensors parameters = make_parameters();
  SGD optimizer(parameters, 0.1);
  torch::NoGradGuard no_grad;
  bool enabled = false;
  const auto loss = optimizer.step([&] {
    enabled = torch::GradMode::is_enabled();
    return torch::tensor(10.0);
  });
  EXPECT_TRUE(enabled);
  EXPECT_EQ(loss.item<double>(), 10);
  EXPECT_FALSE(optimizer.step().defined());
}

TEST(DropIn, ZeroGradDropsGradientsAndAStepWithoutAnyChangesNothing) {
  Tensors parameters = make_parameters();
  const Tensors before = clones(parameters);
  AdamW optimizer(parameters);
  set_gradients(parameters, 1);
  optimizer.zero_grad();
  for (const auto& p : parameters) EXPECT_FALSE(p.grad().defined());
  optimizer.step();
  expect_equal(parameters, before);
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(DropIn, AVectorOfParametersIsStepped) {
  Tensors parameters = {torch::randn({2, 2}), torch::randn({3, 3})};
  const Tensors before = clones(parameters);
  for (auto& p : parameters) p.mutable_grad() = torch::ones_like(p);
  SGD optimizer(parameters, 1.0);
  optimizer.step();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(parameters[i].allclose(before[i] - 1.0));
}

TEST(DropIn, AParameterCountsStepsFromItsFirstGradient) {
  Tensors ours = make_parameters(torch::kFloat64), theirs = clones(ours);
  AdamW a(ours);
  torch::optim::AdamW b(theirs);
  for (int step = 1; step <= 8; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    if (step < 4) ours[1].mutable_grad() = theirs[1].mutable_grad() = torch::Tensor();
    a.step();
    b.step();
    expect_close(ours, theirs, 1e-12, 1e-12);
  }
  const auto& state = static_cast<AdamWParamState&>(*a.state()[ours[1].unsafeGetTensorImpl()]);
  EXPECT_EQ(state.step(), 5);
}

TEST(DropIn, AddedGroupsAndParametersAreTrained) {
  Tensors ours = make_parameters(torch::kFloat64, {{4}, {2, 2}, {3}}), theirs = clones(ours);
  Adam a({ours[0]}, AdamOptions(0.1));
  torch::optim::Adam b({theirs[0]}, torch::optim::AdamOptions(0.1));
  train(a, ours, 1, 3);
  train(b, theirs, 1, 3);
  a.add_param_group({{ours[1]}, std::make_unique<AdamOptions>(AdamOptions().weight_decay(0.3))});
  b.add_param_group({{theirs[1]},
                     std::make_unique<torch::optim::AdamOptions>(
                         torch::optim::AdamOptions(0.1).weight_decay(0.3))});
  train(a, ours, 4, 6);
  train(b, theirs, 4, 6);
  a.add_parameters({ours[2]});
  b.add_parameters({theirs[2]});
  train(a, ours, 7, 9);
  train(b, theirs, 7, 9);
  expect_close(ours, theirs, 1e-12, 1e-12);
  EXPECT_EQ(static_cast<AdamOptions&>(a.param_groups()[1].options()).lr(), 0.1);
}

TEST(DropIn, GroupsAddedThroughTorchsBaseClassAreTrained) {
  Tensors ours = make_parameters(torch::kFloat64, {{4}, {2, 2}, {3}, {5}}), theirs = clones(ours);
  Adam a({ours[0]}, AdamOptions(0.1).eps(1e-3));
  torch::optim::Optimizer& base = a;
  base.add_param_group(OptimizerParamGroup({ours[1]}));
  base.add_parameters({ours[2]});
  a.param_groups().emplace_back(Tensors{ours[3]},
                                std::make_unique<AdamOptions>(AdamOptions().weight_decay(0.3)));
  Adam b({theirs[0], theirs[1], theirs[2]}, AdamOptions(0.1).eps(1e-3));
  b.add_param_group({{theirs[3]}, std::make_unique<AdamOptions>(AdamOptions().weight_decay(0.3))});
  train(a, ours, 1, 5);
  train(b, theirs, 1, 5);
  expect_equal(ours, theirs);
}

TEST(DropIn, PartialOptionsOfAGroupInheritTheDefaults) {
  auto parameters = make_parameters();
  std::vector<OptimizerParamGroup> groups;
  for (int i = 0; i < 3; ++i)
    groups.emplace_back(Tensors{parameters[static_cast<std::size_t>(i)]},
                        std::make_unique<AdamOptions>(AdamOptions().weight_decay(0.11 * (i + 1))));
  AdamOptions defaults;
  defaults.lr(0.0);
  Adam optimizer(groups, defaults);
  const Tensors before = clones(parameters);
  train(optimizer, parameters, 1, 2);
  expect_equal(parameters, before);
  for (int i = 0; i < 3; ++i) {
    const auto& options =
        static_cast<AdamOptions&>(optimizer.param_groups()[static_cast<std::size_t>(i)].options());
    EXPECT_EQ(options.lr(), 0);
    EXPECT_DOUBLE_EQ(options.weight_decay(), 0.11 * (i + 1));
  }
}

TEST(DropIn, SchedulersSetTheLearningRate) {
  torch::Tensor parameter = torch::zeros({1});
  Adam optimizer({parameter}, AdamOptions().lr(1e-3));
  StepLR scheduler(optimizer, 20, 0.5);
  for (int epoch = 0; epoch < 25; ++epoch) {
    optimizer.step();
    scheduler.step();
  }
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 5e-4);
  ReduceLROnPlateauScheduler plateau(optimizer, ReduceLROnPlateauScheduler::SchedulerMode::min, 0.5,
                                     20);
  for (int epoch = 0; epoch < 25; ++epoch) {
    optimizer.step();
    plateau.step(5.0);
  }
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 2.5e-4);
}

TEST(DropIn, ANewLearningRateActsInTheNextStep) {
  Tensors ours = make_parameters(torch::kFloat64), theirs = clones(ours);
  AdamW a(ours);
  torch::optim::AdamW b(theirs);
  for (int step = 1; step <= 6; ++step) {
    a.param_groups()[0].options().set_lr(0.1 / step);
    static_cast<torch::optim::AdamWOptions&>(b.param_groups()[0].options()).lr(0.1 / step);
    train(a, ours, step, step);
    train(b, theirs, step, step);
  }
  expect_close(ours, theirs, 1e-12, 1e-12);
}

TEST(DropIn, MomentumSwitchedOnLateStartsWithTheCurrentGradient) {
  Tensors ours = make_parameters(torch::kFloat64), theirs = clones(ours);
  SGD a(ours, SGDOptions(0.1));
  torch::optim::SGD b(theirs, torch::optim::SGDOptions(0.1));
  train(a, ours, 1, 3);
  train(b, theirs, 1, 3);
  static_cast<SGDOptions&>(a.param_groups()[0].options()).momentum(0.9).dampening(0.3);
  static_cast<torch::optim::SGDOptions&>(b.param_groups()[0].options())
      .momentum(0.9)
      .dampening(0.3);
  for (int step = 4; step <= 8; ++step) {
    train(a, ours, step, step);
    train(b, theirs, step, step);
    expect_close(ours, theirs, 1e-12, 1e-12);
  }
}

// Without weight decay, torch does not multiply it by the parameter.
TEST(DropIn, InfiniteParametersStayInfinite) {
  const auto trained = [](auto make) {
    torch::Tensor p = torch::tensor({1.0f, -INFINITY, 2.0f, INFINITY}).requires_grad_();
    auto optimizer = make(std::vector{p});
    for (int step = 0; step < 3; ++step) {
      p.mutable_grad() = torch::tensor({0.1f, 0.0f, 0.2f, 0.1f});
      optimizer.step();
    }
    return Tensors{p};
  };
  using Parameters = std::vector<torch::Tensor>;
  expect_close(trained([](const Parameters& all) { return SGD(all, SGDOptions(0.1)); }),
               trained([](const Parameters& all) { return torch::optim::SGD(all, 0.1); }), 0, 0);
  expect_close(trained([](const Parameters& all) { return Adam(all); }),
               trained([](const Parameters& all) { return torch::optim::Adam(all); }), 1e-6, 0);
  expect_close(trained([](const Parameters& all) { return RMSprop(all); }),
               trained([](const Parameters& all) { return torch::optim::RMSprop(all); }), 1e-5, 0);
}

TEST(DropIn, AmsgradSwitchedOnLateStartsItsMaximumThen) {
  Tensors ours = make_parameters(torch::kFloat64), theirs = clones(ours);
  AdamW a(ours, AdamWOptions(0.1));
  torch::optim::AdamW b(theirs, torch::optim::AdamWOptions(0.1));
  train(a, ours, 1, 3);
  train(b, theirs, 1, 3);
  static_cast<AdamWOptions&>(a.param_groups()[0].options()).amsgrad(true);
  static_cast<torch::optim::AdamWOptions&>(b.param_groups()[0].options()).amsgrad(true);
  for (const auto& p : theirs)  // torch's C++ class throws, because it finds no buffer
    static_cast<torch::optim::AdamWParamState&>(*b.state().at(p.unsafeGetTensorImpl()))
        .max_exp_avg_sq(torch::zeros_like(p.detach()));
  train(a, ours, 4, 8);
  train(b, theirs, 4, 8);
  expect_close(ours, theirs, 1e-12, 1e-12);
}

TEST(DropIn, AmsgradKeepsANanAsTorchDoes) {
  Tensors ours = make_parameters(torch::kFloat64, {{50}}), theirs = clones(ours);
  AdamW a(ours, AdamWOptions(0.1).amsgrad(true));
  torch::optim::AdamW b(theirs, torch::optim::AdamWOptions(0.1).amsgrad(true));
  for (int step = 1; step <= 5; ++step) {
    set_gradients(ours, step);
    if (step == 2) ours[0].mutable_grad()[7] = std::nan("");
    theirs[0].mutable_grad() = ours[0].grad().clone();
    a.step();
    b.step();
    const auto& mine = static_cast<AdamWParamState&>(*a.state().begin()->second).max_exp_avg_sq();
    const auto& torchs =
        static_cast<torch::optim::AdamWParamState&>(*b.state().begin()->second).max_exp_avg_sq();
    EXPECT_TRUE(torch::allclose(mine, torchs, 1e-12, 1e-12, true)) << step;
    EXPECT_TRUE(torch::allclose(ours[0], theirs[0], 1e-12, 1e-12, true)) << step;
    EXPECT_EQ(torch::isnan(mine).sum().item<std::int64_t>(), step < 2 ? 0 : 1);
  }
}

TEST(DropIn, AParameterThatModulesShareIsSteppedOnce) {
  torch::nn::Linear shared(6, 6), same(6, 6);
  torch::nn::Sequential model(shared, torch::nn::Tanh(), shared);
  ASSERT_EQ(model->parameters().size(), 4u);
  {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < 2; ++i) same->parameters()[i].copy_(shared->parameters()[i]);
  }
  AdamW optimizer(model->parameters(), AdamWOptions(0.1)),
      other(same->parameters(), AdamWOptions(0.1));
  EXPECT_EQ(optimizer.param_groups()[0].params().size(), 4u);
  const Tensors own = shared->parameters(), theirs = same->parameters();
  train(optimizer, own, 1, 3);
  train(other, theirs, 1, 3);
  expect_equal(own, theirs);
  EXPECT_EQ(optimizer.state().size(), 2u);
}

TEST(DropIn, AccessorsAreTorchs) {
  Tensors parameters = make_parameters();
  const AdamWOptions options = AdamWOptions(1.0).betas({0.8, 0.9});
  AdamW optimizer(parameters, options);
  EXPECT_TRUE(static_cast<AdamWOptions&>(optimizer.defaults()) == options);
  EXPECT_EQ(optimizer.size(), parameters.size());
  EXPECT_TRUE(torch::equal(optimizer.parameters()[0], parameters[0]));
  const AdamW& constant = optimizer;
  EXPECT_EQ(constant.param_groups().size(), 1u);
  EXPECT_TRUE(constant.state().empty());
}

}  // namespace
}  // namespace jitstep::tests
