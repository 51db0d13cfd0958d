// One optimizer whose groups have different rules, such as Muon for matrices and AdamW for the other parameters.
#include <torch/nn.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using torch::optim::OptimizerParamGroup;
using Groups = std::vector<OptimizerParamGroup>;

// Two matrices for Muon, a vector, a scalar and a matrix for AdamW.
const std::vector<std::vector<std::int64_t>> kShapes = {{96, 64}, {3}, {64, 96}, {}, {80, 80}};

Tensors matrices(const Tensors& all) { return {all[0], all[2]}; }
Tensors others(const Tensors& all) { return {all[1], all[3], all[4]}; }

Groups groups_of(const Tensors& all, const Options& first, const Options& second) {
  Groups groups;
  groups.emplace_back(matrices(all), first.copy());
  groups.emplace_back(others(all), second.copy());
  return groups;
}

// One step of each optimizer, with equal gradients.
void step_together(Optimizer& both, const Tensors& ours, Optimizer& one, Optimizer& other,
                   const Tensors& theirs, int step) {
  train(both, ours, step, step);
  set_gradients(theirs, step);
  one.step();
  other.step();
}

TEST(SeveralRules, EachGroupIsSteppedAsByASeparateOptimizer) {
  for (const char* codec : {"fp32", "int8", "int4"}) {
    const auto muon = MuonOptions(0.02).state(codec);
    const auto adamw = AdamWOptions(0.01).state(codec);
    Tensors ours = make_parameters(torch::kFloat32, kShapes), theirs = clones(ours);
    Optimizer both(groups_of(ours, muon, adamw));
    Muon one(matrices(theirs), muon);
    AdamW other(others(theirs), adamw);
    both.compile();
    for (int step = 1; step <= 3; ++step) step_together(both, ours, one, other, theirs, step);
    expect_equal(ours, theirs);
    EXPECT_EQ(both.memory_report().state_bytes(),
              one.memory_report().state_bytes() + other.memory_report().state_bytes());
    EXPECT_EQ(both.formats_of(ours[0]).slots.at("m").name, codec);
    EXPECT_EQ(both.formats_of(ours[4]).slots.at("v").name, codec);
  }
}

TEST(SeveralRules, StateHasTheClassOfItsGroupsRule) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer(groups_of(parameters, MuonOptions(), AdamWOptions()));
  train(optimizer, parameters, 1, 2);
  const auto state = [&](std::size_t i) {
    return optimizer.state().at(parameters[i].unsafeGetTensorImpl()).get();
  };
  EXPECT_EQ(dynamic_cast<MuonParamState&>(*state(0)).momentum_buffer().sizes(),
            parameters[0].sizes());
  EXPECT_EQ(dynamic_cast<AdamWParamState&>(*state(1)).exp_avg_sq().sizes(), parameters[1].sizes());
  EXPECT_EQ(optimizer.rule(), "muon");
  optimizer.zero_grad();
  for (const auto& p : parameters) EXPECT_FALSE(p.grad().defined());
}

// eps is large, so that the length of the gradients matters to both rules.
TEST(SeveralRules, ClippingUsesTheNormOfAllGradients) {
  Tensors ours = make_parameters(torch::kFloat64, kShapes), theirs = clones(ours);
  auto muon = MuonOptions().eps(100).ns_dtype(MuonOptions::IterationDtype::real);
  auto adamw = AdamWOptions(0.1).eps(0.1);
  Optimizer before(groups_of(theirs, muon, adamw));
  Optimizer inside(groups_of(ours, muon.max_grad_norm(0.5), adamw.max_grad_norm(0.5)));
  for (int step = 1; step <= 3; ++step) {
    train(inside, ours, step, step);
    set_gradients(theirs, step);
    torch::nn::utils::clip_grad_norm_(theirs, 0.5);
    before.step();
  }
  expect_close(ours, theirs, 0, 1e-8);
}

TEST(SeveralRules, ASchedulerDrivesAllGroups) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer(groups_of(parameters, MuonOptions(0.4), AdamWOptions(0.2)));
  PolynomialLR scheduler(optimizer, {.steps = 4});
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.3);
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[1].options().get_lr(), 0.15);
}

TEST(SeveralRules, ASavedRunContinuesBitForBit) {
  const auto muon = MuonOptions(0.02).state("int8");
  const auto adamw = AdamWOptions(0.01).state("int4").weights("stochastic").seed(3);
  Tensors whole = make_parameters(torch::kBFloat16, kShapes), parts = clones(whole);
  Optimizer a(groups_of(whole, muon, adamw)), b(groups_of(parts, muon, adamw));
  train(a, whole, 1, 5);
  train(b, parts, 1, 3);
  Optimizer c(groups_of(parts, muon, adamw));
  copy_through_archive(b, c);
  train(c, parts, 4, 5);
  expect_equal(whole, parts);
}

TEST(SeveralRules, AnArchiveOfOtherRulesIsRejected) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer both(groups_of(parameters, MuonOptions(), AdamWOptions()));
  Optimizer other(groups_of(parameters, LionOptions(), AdamWOptions()));
  AdamW one(parameters);
  EXPECT_HAS(argument_error([&] { copy_through_archive(both, other); }),
             "an optimizer of the rule lion, adamw: it has state of the rule muon, adamw");
  EXPECT_HAS(argument_error([&] { copy_through_archive(one, both); }),
             "an optimizer of the rule muon, adamw: it has state of the rule adamw");
}

TEST(SeveralRules, AGroupOfAnotherRuleIsAdded) {
  Tensors ours = make_parameters(torch::kFloat32, kShapes), theirs = clones(ours);
  const auto lion = make_options("lion", GenericOptions(0.01).set("weight_decay", 0.5));
  Groups groups;
  groups.emplace_back(matrices(ours), MuonOptions().copy());
  Optimizer all(groups);
  all.add_param_group(OptimizerParamGroup(others(ours), lion->copy()));
  Muon one(matrices(theirs));
  Lion other(others(theirs), LionOptions(0.01).weight_decay(0.5));
  for (int step = 1; step <= 2; ++step) step_together(all, ours, one, other, theirs, step);
  expect_equal(ours, theirs);
}

TEST(SeveralRules, AMistakeIsAnErrorWithAFix) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  const auto error = [&](const Options& second) {
    return argument_error([&] { Optimizer(groups_of(parameters, MuonOptions(), second)); });
  };
  EXPECT_HAS(error(GenericOptions(0.1)), "does not name its optimizer");
  EXPECT_HAS(error(MuonOptions()), "only matrices");
  EXPECT_HAS(error(ProdigyOptions()),
             "prodigy cannot share an optimizer with other rules: it has shared state");
  EXPECT_HAS(error(ScheduleFreeAdamWOptions()),
             "schedulefree_adamw cannot share an optimizer with other rules: it has modes");
  EXPECT_HAS(argument_error([&] { Optimizer{Groups{}}; }), "no parameter groups");
  EXPECT_HAS(argument_error([&] { Optimizer{Groups{OptimizerParamGroup(parameters)}}; }),
             "does not name its optimizer");
  Optimizer optimizer(groups_of(parameters, MuonOptions(), AdamWOptions()));
  optimizer.param_groups()[1].set_options(MuonOptions().clone());
  set_gradients(parameters, 1);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "Use jitstep's options of adamw");
}

TEST(SeveralRules, AnLrOfAllGroupsChangesNoneIfARuleHasNoLr) {
  const std::string rule = load_rule(own_file("without_lr.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::without_lr {
struct Hyper {
  double rate = 1;  // >= 0
};
struct Rule {
  KHD static void update_param(auto& e, const auto&) { e.p = e.p - e.g; }
};
}
)"));
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer(groups_of(parameters, MuonOptions(0.1), *make_options(rule)));
  EXPECT_HAS(argument_error([&] { optimizer.set_lr(torch::zeros({})); }), "without_lr");
  const torch::Tensor before = matrices(parameters)[0].detach().clone();
  set_gradients(parameters, 1);
  optimizer.step();
  EXPECT_FALSE(torch::equal(matrices(parameters)[0], before)) << "the lr is not 0";
}

TEST(SeveralRules, AClassOfOneRuleNamesTheClassForSeveral) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  const Groups groups = groups_of(parameters, MuonOptions(), AdamWOptions());
  EXPECT_HAS(argument_error([&] { AdamW optimizer(groups); }),
             "belong to another optimizer than adamw: they are options of muon");
}

TEST(SeveralRules, ParametersAreAddedToTheFirstGroup) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer(groups_of(parameters, MuonOptions(), AdamWOptions()));
  const auto more = torch::zeros({4, 4}).requires_grad_();
  optimizer.add_parameters({more});
  EXPECT_TRUE(optimizer.param_groups()[0].params().back().is_same(more));
  EXPECT_HAS(
      argument_error([&] { optimizer.add_parameters({torch::zeros({4}).requires_grad_()}); }),
      "parameter 3 of group 0 (float32 [4])");
}

// The mean loss of the last tenth of a short training. Muon steps the hidden layer.
double loss_with(const std::string& codec) {
  torch::manual_seed(5);
  torch::nn::Sequential model(torch::nn::Linear(8, 96), torch::nn::Tanh(),
                              torch::nn::Linear(96, 96), torch::nn::Tanh(),
                              torch::nn::Linear(96, 1));
  const auto x = torch::randn({128, 8});
  const auto y = torch::sin(2 * x).sum(1, /*keepdim=*/true);
  Muon optimizer(*model, MuonOptions(0.02).weight_decay(0).state(codec),
                 AdamWOptions(3e-3).weight_decay(0).state(codec));
  double last = 0;
  for (int step = 1; step <= 100; ++step) {
    optimizer.zero_grad();
    const auto loss = torch::mse_loss(model->forward(x), y);
    loss.backward();
    optimizer.step();
    if (step > 90) last += loss.item<double>() / 10;
  }
  EXPECT_EQ(optimizer.formats_of(model->parameters()[2]).slots.at("m").name, codec);
  return last;
}

TEST(SeveralRules, MuonTrainsAsWellWithItsMomentumInFewBits) {
  const double full = loss_with("fp32");
  RecordProperty("fp32", std::to_string(full));
  EXPECT_LT(full, 0.4) << "the variance of the targets is about 4";
  for (const char* codec : {"int8", "int4"}) {
    const double loss = loss_with(codec);
    RecordProperty(codec, std::to_string(loss));
    EXPECT_LT(loss, 2 * full) << codec;
  }
}

TEST(SeveralRules, GroupsMayChangePlaces) {
  const MuonOptions muon(0.02);
  const AdamWOptions adamw(0.01);
  Tensors ours = make_parameters(torch::kFloat32, kShapes), theirs = clones(ours);
  Optimizer both(groups_of(ours, muon, adamw));
  Muon one(matrices(theirs), muon);
  AdamW other(others(theirs), adamw);
  step_together(both, ours, one, other, theirs, 1);
  std::swap(both.param_groups()[0], both.param_groups()[1]);
  step_together(both, ours, one, other, theirs, 2);
  std::swap(both.param_groups()[0], both.param_groups()[1]);
  EXPECT_EQ(both.formats_of(ours[0]).slots.count("v"), 0U);
  std::swap(both.param_groups()[0], both.param_groups()[1]);
  both.set_lr(0, torch::full({}, 0.01f));  // now that of AdamW
  step_together(both, ours, one, other, theirs, 3);
  expect_equal(ours, theirs);
}

}  // namespace
}  // namespace jitstep::tests
