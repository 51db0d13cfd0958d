// State that a rule starts after its first step: options that are switched on in training, and gradients that are zero
// at first.
#include <set>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

Tensors near_five() { return {torch::linspace(4.5, 5.5, 50, torch::kFloat64).requires_grad_()}; }

// Without momentum MADGRAD does not store x0. It then recovers the start of training from its stored sums.
TEST(LateStart, OfMadgradMomentumRecoversTheStartOfTraining) {
  Tensors parameters = near_five();
  const torch::Tensor start = parameters[0].detach().clone();
  MADGRAD optimizer(parameters, MADGRADOptions(0.01).momentum(0));
  train(optimizer, parameters, 1, 4);
  const torch::Tensor before = parameters[0].detach().clone();
  static_cast<MADGRADOptions&>(optimizer.param_groups()[0].options()).momentum(0.9);
  train(optimizer, parameters, 5, 6);
  const auto& state =
      static_cast<const ParamState&>(*optimizer.state().at(parameters[0].unsafeGetTensorImpl()));
  EXPECT_TRUE(torch::allclose(state.value("x0"), start, 1e-12));
  EXPECT_LT((parameters[0] - before).abs().max().item<double>(), 0.1);
}

// The second moment starts as the first nonzero squared norm, as in Jasper's and timm's NovoGrad.
TEST(LateStart, OfNovoGradsMomentUsesTheFirstNonzeroGradient) {
  const auto trained = [](int zeros) {
    Tensors parameters = {torch::ones({4}, torch::kFloat64).requires_grad_()};
    NovoGrad optimizer(parameters, NovoGradOptions(0.1));
    for (int step = 0; step < zeros + 2; ++step) {
      parameters[0].mutable_grad() = torch::full({4}, step < zeros ? 0.0 : 1.0, torch::kFloat64);
      optimizer.step();
    }
    return parameters;
  };
  EXPECT_NEAR(trained(0)[0][0].item<double>(), trained(3)[0][0].item<double>(), 1e-12);
}

// SGD's first step with momentum is step 1. Other rules have state from the steps before.
TEST(LateStart, OfMomentumKeepsTheNumberOfStepsOfOtherState) {
  const auto steps_of = [](Optimizer& optimizer, const Tensors& parameters) {
    void* const key = parameters[0].unsafeGetTensorImpl();
    return static_cast<const ParamState&>(*optimizer.state().at(key)).step();
  };
  for (const char* rule : {"amos", "sm3", "sgd"}) {
    Tensors parameters = make_parameters(torch::kFloat32, {{3, 4}});
    Optimizer optimizer(rule, parameters, GenericOptions().set("momentum", 0.0));
    train(optimizer, parameters, 1, 3);
    static_cast<Options&>(optimizer.param_groups()[0].options()).put("momentum", 0.5);
    train(optimizer, parameters, 4, 4);
    EXPECT_EQ(steps_of(optimizer, parameters), rule == std::string("sgd") ? 1 : 4) << rule;
  }
}

// Whether a step with the rate 0 changes the parameters after some steps.
bool changes_at_rate_0(const std::string& rule, const GenericOptions& options) {
  Tensors parameters = make_parameters(torch::kFloat32, {{3, 4}});
  Optimizer optimizer(rule, parameters, options);
  train(optimizer, parameters, 1, 3);
  const Tensors before = clones(parameters);
  static_cast<Options&>(optimizer.param_groups()[0].options()).set_lr(0);
  train(optimizer, parameters, 4, 10);  // also a sixth step, in which lookahead merges
  return !torch::equal(parameters[0], before[0]);
}

// A schedule may end at 0.
TEST(LateStart, OfARateOf0ChangesNoParameterExceptOfTheseRules) {
  const std::set<std::string> changed = {
      "asgd",     "lars",  "lookahead_adamw",    "madgrad",
      "ranger21", "rprop", "schedulefree_adamw", "schedulefree_sgd"};
  for (const std::string& rule : shipped(jit::Manifest::Kind::rule))
    EXPECT_EQ(changes_at_rate_0(rule, GenericOptions()), changed.contains(rule)) << rule;
  const auto decay = GenericOptions().set("fixed_decay", true).set("weight_decay", 0.1);
  EXPECT_TRUE(changes_at_rate_0("adabelief", decay));
  EXPECT_TRUE(changes_at_rate_0("amos", GenericOptions().set("momentum", 0.5)));
}

// Also for rules that need a positive rate to begin.
TEST(LateStart, OfARateOf0KeepsTheSecondMomentOfRulesThatEstimateIt) {
  for (const char* rule : {"prodigy", "dadapt_adam"}) {
    Tensors parameters = make_parameters(torch::kFloat32, {{3, 4}});
    EXPECT_HAS(
        argument_error([&] { Optimizer(rule, parameters, GenericOptions().set("lr", 0.0)); }),
        "lr is 0");
    Optimizer optimizer(rule, parameters);
    train(optimizer, parameters, 1, 2);
    const auto second_moment = [&] {
      void* const key = parameters[0].unsafeGetTensorImpl();
      return static_cast<const ParamState&>(*optimizer.state().at(key)).value("v");
    };
    const torch::Tensor moment = second_moment();
    static_cast<Options&>(optimizer.param_groups()[0].options()).set_lr(0);
    train(optimizer, parameters, 3, 3);
    EXPECT_TRUE(torch::equal(second_moment(), moment)) << rule;
  }
}

}  // namespace
}  // namespace jitstep::tests
