#include <jitstep/grad_accumulator.h>

#include <string>
#include <vector>

#include "jitstep/jit/step.h"
#include "optim/optimizer/backward.h"

namespace jitstep::tests {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;
const Shapes kShapes = {{80, 64}, {64}, {}, {5000}, {3, 4, 5}};

std::unique_ptr<Optimizer> optimizer_of(const Tensors& parameters, const std::string& spec) {
  return Optimizer::from_spec(parameters, spec);
}

// The parameters after these steps. Where `in_backward` is true, backward() takes the step, and no step() follows.
Tensors trained(const std::string& spec, torch::Dtype dtype, bool (*in_backward)(int step)) {
  const Tensors parameters = make_parameters(dtype, kShapes);
  const auto opt = optimizer_of(parameters, spec);
  for (int step = 0; step < 6; ++step) {
    opt->step_in_backward(in_backward(step));
    Tensors gradients = random_gradients(parameters, step);
    if (step % 3 == 0) gradients[3].reset();  // a parameter may be inactive, and start late
    backward(parameters, gradients);
    if (!in_backward(step)) opt->step();
    opt->zero_grad();
  }
  return parameters;
}

void expect_the_same_bits(const std::string& spec, torch::Dtype dtype = torch::kFloat32) {
  SCOPED_TRACE(spec);
  const Tensors expected = trained(spec, dtype, [](int) { return false; });
  expect_equal(trained(spec, dtype, [](int) { return true; }), expected);
  expect_equal(trained(spec, dtype, [](int step) { return step % 3 != 0; }), expected);
}

TEST(StepInBackward, HasTheBitsOfAStepForEveryKindOfRule) {
  for (const char* const rule : {"adamw", "sgd", "lamb", "adafactor", "novograd", "nadam"})
    expect_the_same_bits(c10::str(R"({"rule": ")", rule, R"(", "options": {"lr": 0.01}})"));
}

TEST(StepInBackward, HasTheBitsOfAStepInEveryKindOfState) {
  for (const char* const state : {"int8", "int4", "bf16_sr"})
    expect_the_same_bits(c10::str(R"({"rule": "adamw", "state": ")", state, R"("})"));
}

TEST(StepInBackward, HasTheBitsOfAStepInEveryWeightFormat) {
  for (const char* const weights : {"native", "stochastic", "split16", "kahan"})
    expect_the_same_bits(c10::str(R"({"rule": "adamw", "weights": ")", weights, R"("})"),
                         torch::kBFloat16);
}

TEST(StepInBackward, HasTheBitsOfAStepWithAHostTransform) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{40, 30}, {40, 30}, {8, 8}});
  const Tensors expected = clones(parameters);
  Muon opt(parameters, MuonOptions(0.02)), reference(expected, MuonOptions(0.02));
  opt.step_in_backward();
  for (int step = 0; step < 3; ++step) {
    const Tensors gradients = random_gradients(parameters, step);
    backward(parameters, gradients);
    backward(expected, gradients);
    reference.step();
    reference.zero_grad();
  }
  expect_equal(parameters, expected);
}

TEST(StepInBackward, HasTheBitsOfAStepOfSeveralRulesAndOptionsThatChange) {
  const auto train_it = [](bool in_backward) {
    const Tensors parameters = make_parameters();
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(Tensors{parameters[0]}, std::make_unique<SGDOptions>(0.1));
    groups.emplace_back(Tensors{parameters[1]}, std::make_unique<AdamWOptions>(0.1));
    Optimizer opt(groups);
    opt.step_in_backward(in_backward);
    for (int step = 0; step < 4; ++step) {
      static_cast<SGDOptions&>(opt.param_groups()[0].options()).lr(0.1 / (step + 1));
      if (step == 2) opt.add_parameters({parameters[2]});
      backward(parameters, random_gradients(parameters, step));
      opt.step();
      for (const torch::Tensor& p : parameters) p.mutable_grad().reset();
    }
    return parameters;
  };
  expect_equal(train_it(true), train_it(false));
}

void move(const Tensors& parameters) {
  for (const torch::Tensor& p : parameters) p.set_data(p.detach().clone());
}

// `change` may move parameters between steps. The result must not depend on it.
template <class Change>
void expect_no_difference(Change change) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes),
                expected = clones(parameters);
  AdamW opt(parameters), reference(expected);
  for (int step = 1; step <= 6; ++step) {
    opt.step_in_backward(change(opt, parameters, step));
    for (auto& [optimizer, of] : {std::pair{&opt, parameters}, std::pair{&reference, expected}}) {
      backward(of, random_gradients(of, step));
      optimizer->step();
      optimizer->zero_grad();
    }
  }
  expect_equal(parameters, expected);
}

TEST(StepInBackward, FindsAllParametersIfTheyMovedTogether) {
  expect_no_difference([](AdamW&, const Tensors& parameters, int) {
    move(parameters);
    return true;
  });
}

TEST(StepInBackward, FindsParametersThatMovedWhenAGroupWasAdded) {
  Tensors late;
  expect_no_difference([&](AdamW& opt, const Tensors& parameters, int step) {
    if (step % 2 == 0) {
      late.push_back(leaf({5}));
      opt.add_param_group({{late.back()}});
      move(parameters);
    }
    return true;
  });
}

// All parameters move, one of them is stepped in backward(), and then all by step().
TEST(StepInBackward, LetsStepFindParametersThatMovedBefore) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes),
                expected = clones(parameters);
  AdamW opt(parameters), reference(expected);
  train(opt, parameters, 1, 2);
  train(reference, expected, 1, 2);
  for (int step = 3; step <= 6; ++step) {
    opt.zero_grad();
    reference.zero_grad();
    move(parameters);
    const auto gradient = random_gradients({parameters[1]}, step)[0];
    opt.step_in_backward();
    backward(parameters[1], gradient);
    opt.step_in_backward(false);
    backward(expected[1], gradient);
    reference.step();
    train(opt, parameters, step, step);
    train(reference, expected, step, step);
  }
  expect_equal(parameters, expected);
}

TEST(StepInBackward, FreesEachGradientBeforeTheNextOneComes) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{3}, {3}, {3}});
  AdamW opt(parameters);
  opt.step_in_backward();
  std::vector<int> alive;
  torch::Tensor x = torch::ones({3});
  for (const torch::Tensor& p : parameters) {
    x = x * p;
    x.register_hook([&](const torch::Tensor& g) {
      int count = 0;
      for (const torch::Tensor& q : parameters) count += q.grad().defined() ? 1 : 0;
      alive.push_back(count);
      return g;
    });
  }
  x.sum().backward();
  EXPECT_EQ(alive, std::vector<int>(3, 0));
  for (const torch::Tensor& p : parameters) EXPECT_FALSE(p.grad().defined());
}

TEST(StepInBackward, StepsEveryParameterByOneLaunchAndLeavesStepNothing) {
  const Tensors parameters = make_parameters();
  AdamW opt(parameters);
  EXPECT_FALSE(opt.steps_in_backward());
  opt.step_in_backward();
  EXPECT_TRUE(opt.steps_in_backward());
  for (int step = 1; step <= 2; ++step) {
    const auto before = jit::launch_count();
    backward(parameters, random_gradients(parameters, step));
    EXPECT_EQ(jit::launch_count() - before, parameters.size());
    const Tensors stepped = clones(parameters);
    opt.step();
    expect_equal(parameters, stepped);
    EXPECT_EQ(jit::launch_count() - before, parameters.size());
  }
}

TEST(StepInBackward, StepsInTheClosureOfAStep) {
  const Tensors parameters = make_parameters(), expected = clones(parameters);
  AdamW opt(parameters), reference(expected);
  opt.step_in_backward();
  const Tensors gradients = random_gradients(parameters, 1);
  opt.step([&] {
    auto loss = loss_with(parameters, gradients);
    loss.backward();
    return loss;
  });
  backward(expected, gradients);
  reference.step();
  expect_equal(parameters, expected);
}

TEST(StepInBackward, LeavesGradientsToStepWhenSwitchedOff) {
  const torch::Tensor p = leaf({3});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.step_in_backward();
  opt.step_in_backward();  // a second call changes nothing
  backward(p, torch::ones({3}));
  EXPECT_EQ(p[0].item<float>(), -1);
  opt.step_in_backward(false);
  backward(p, torch::ones({3}));
  EXPECT_EQ(p[0].item<float>(), -1);
  opt.step();
  EXPECT_EQ(p[0].item<float>(), -2);
}

TEST(StepInBackward, ContinuesInAMovedOptimizerAndEndsWithIt) {
  const torch::Tensor p = leaf({3});
  {
    SGD first(Tensors{p}, SGDOptions(1));
    first.step_in_backward();
    const SGD second = std::move(first);
    backward(p, torch::ones({3}));
    EXPECT_EQ(p[0].item<float>(), -1);
  }
  backward(p, torch::ones({3}));
  EXPECT_EQ(p[0].item<float>(), -1);
  EXPECT_TRUE(p.grad().defined());
}

TEST(StepInBackward, EndsWhenTheOptimizerIsAssigned) {
  const torch::Tensor p = leaf({3}), q = leaf({3});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.step_in_backward();
  opt = SGD(Tensors{q}, SGDOptions(1));
  backward(p, torch::ones({3}));
  EXPECT_EQ(p[0].item<float>(), 0);
  EXPECT_TRUE(p.grad().defined());
}

TEST(StepInBackward, DividesByAGradScale) {
  const torch::Tensor p = leaf({3});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.set_grad_scale(torch::full({}, 4.f));
  opt.step_in_backward();
  backward(p, torch::ones({3}));
  EXPECT_EQ(p[0].item<float>(), -0.25);
}

TEST(StepInBackward, RejectsGlobalSumsAndSharedState) {
  const Tensors parameters = make_parameters();
  for (const char* const spec :
       {R"({"rule": "adamw", "options": {"max_grad_norm": 1.0}})", R"({"rule": "nvlamb"})",
        R"({"rule": "prodigy"})", R"({"rule": "schedulefree_adamw"})"}) {
    const auto opt = optimizer_of(parameters, spec);
    EXPECT_HAS(argument_error([&] { opt->step_in_backward(); }), "needs all gradients at once");
    EXPECT_FALSE(opt->steps_in_backward());
  }
}

TEST(StepInBackward, RejectsAGlobalSumThatAnOptionAddsLater) {
  const torch::Tensor p = leaf({3});
  AdamW opt(Tensors{p});
  opt.step_in_backward();
  backward(p, torch::ones({3}));
  const torch::Tensor before = p.detach().clone();
  static_cast<AdamWOptions&>(opt.param_groups()[0].options()).max_grad_norm(1);
  EXPECT_HAS(argument_error([&] { backward(p, torch::ones({3})); }), "max_grad_norm");
  EXPECT_TRUE(torch::equal(p, before));
  EXPECT_TRUE(p.grad().defined());
  opt.step_in_backward(false);
  opt.step();  // its gradient is still there
  EXPECT_FALSE(torch::equal(p, before));
}

TEST(StepInBackward, RejectsGradScalersAndFoundInf) {
  const torch::Tensor p = leaf({3});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.step_in_backward();
  GradScaler scaler;
  scaler.scale((p * p).sum()).backward();
  EXPECT_HAS(argument_error([&] { scaler.step(opt); }), "steps in backward()");
  opt.set_found_inf(torch::zeros({}));
  EXPECT_HAS(argument_error([&] { backward(p, torch::ones({3})); }), "found_inf");
  EXPECT_HAS(argument_error([&] { opt.step_in_backward(); }), "found_inf");
}

TEST(StepInBackward, RejectsParametersOfAnAccumulator) {
  const torch::Tensor p = leaf({3});
  SGD opt(Tensors{p}, SGDOptions(1));
  {
    const GradAccumulator sums({p});
    EXPECT_HAS(argument_error([&] { opt.step_in_backward(); }), "already go to a GradAccumulator");
    EXPECT_FALSE(opt.steps_in_backward());
  }
  opt.step_in_backward();
  EXPECT_HAS(argument_error([&] { GradAccumulator{{p}}; }),
             "already go to an optimizer that steps in backward()");
}

TEST(StepInBackward, RejectsAGroupOfAnotherOptimizerAndGoesOn) {
  const torch::Tensor p = leaf({3}), other = leaf({2});
  SGD first(Tensors{p}, SGDOptions(1)), second(Tensors{other}, SGDOptions(1));
  first.step_in_backward();
  second.step_in_backward();
  EXPECT_THROW(first.add_param_group(torch::optim::OptimizerParamGroup({other})), c10::Error);
  EXPECT_THROW(first.add_parameters({other}), c10::Error);
  EXPECT_EQ(first.param_groups().size(), 1u);
  EXPECT_EQ(first.parameters().size(), 1u);
  EXPECT_TRUE(first.steps_in_backward());
  backward(p, torch::ones({3}));
  EXPECT_TRUE(torch::equal(p.detach(), -torch::ones({3})));
}

TEST(StepInBackward, RejectsStepsInEvaluation) {
  const torch::Tensor p = leaf({3});
  const std::string rule = load_rule(own_file(
      "averaged_iterate.cuh",
      text_of_file(JITSTEP_SOURCE_DIR "/tests/templates/extensions/averaged_iterate.cuh")));
  Optimizer opt(rule, Tensors{p});
  opt.step_in_backward();
  backward(p, torch::ones({3}));
  opt.eval();
  EXPECT_HAS(argument_error([&] { backward(p, torch::ones({3})); }), "evaluation mode");
}

TEST(StepInBackward, ThrowsForABadGradientAndKeepsIt) {
  const torch::Tensor p = leaf({4, 2});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.step_in_backward();
  const auto loss = torch::embedding(p, torch::tensor({1, 2}), -1, false, true).sum();
  EXPECT_HAS(argument_error([&] { loss.backward(); }), "sparse");
  EXPECT_EQ(p.abs().sum().item<float>(), 0);
  EXPECT_TRUE(p.grad().is_sparse());
}

// Backward visits the last operation first. It steps p before it computes q's gradient, which needs the old p.
TEST(StepInBackward, IsVisibleToAutogradIfTheParameterIsStillNeeded) {
  const torch::Tensor p = leaf({3}), q = leaf({3});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.step_in_backward();
  torch::Tensor loss = (p.detach() * q).sum();
  loss = loss + p.sum();
  const std::string error = argument_error([&] { loss.backward(); });
  EXPECT_HAS(error, "modified by an inplace operation");
}

// The program may change the list of parameters, as in torch.
TEST(StepInBackward, RejectsGroupsWhoseParametersWereReplaced) {
  const torch::Tensor p = leaf({3}), other = leaf({3});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.step_in_backward();
  opt.param_groups()[0].params()[0] = other;
  EXPECT_HAS(argument_error([&] { backward(p, torch::ones({3})); }), "Call it again");
  opt.step_in_backward();
  backward(other, torch::ones({3}));
  EXPECT_EQ(other[0].item<float>(), -1);
}

}  // namespace
}  // namespace jitstep::tests
