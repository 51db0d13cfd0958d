// Invalid arguments: each throws one sentence, before anything changes.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

std::string error_for(const Tensors& parameters, const AdamWOptions& options = {}) {
  return argument_error([&] { AdamW optimizer(parameters, options); });
}

TEST(BadInput, ParametersThatCannotBeTrained) {
  EXPECT_HAS(error_for({leaf(torch::eye(3).to_sparse())}), "to_dense()");
  EXPECT_HAS(error_for({leaf(torch::zeros({3}, torch::kComplexFloat))}), "is complex");
  EXPECT_HAS(error_for({torch::zeros({3}, torch::kInt64)}), "not floating point");
  EXPECT_HAS(error_for({leaf(torch::zeros({3}, torch::kFloat8_e4m3fn))}), "not supported");
  EXPECT_HAS(error_for({leaf(torch::zeros({3})) * 2}), "can't optimize a non-leaf Tensor");
  EXPECT_HAS(error_for({torch::Tensor()}), "undefined");
  EXPECT_HAS(error_for({leaf(torch::zeros({1}).expand({3}))}), "share memory");
  const Tensors ragged = {torch::zeros({2, 3}), torch::zeros({4, 3})};
  EXPECT_HAS(error_for({leaf(at::_nested_tensor_from_tensor_list(ragged))}), "is a nested tensor");
}

TEST(BadInput, AMessageNamesTheParameter) {
  const auto good = leaf(torch::zeros({2}));
  EXPECT_HAS(error_for({good, torch::zeros({3, 4}, torch::kInt64)}),
             "parameter 1 of group 0 (long");
}

TEST(BadInput, AMessageNamesAParameterWithTooManyDimensions) {
  const auto good = leaf(torch::zeros({2}));
  torch::Tensor sliced = torch::zeros(std::vector<std::int64_t>(9, 3));
  for (std::int64_t d = 0; d < 9; ++d) sliced = sliced.slice(d, 0, 3, 2);
  const auto gaps = leaf(sliced);
  AdamW optimizer({good, gaps});
  for (const auto& p : {good, gaps}) p.mutable_grad() = torch::ones(p.sizes());
  const std::string message = argument_error([&] { optimizer.step(); });
  EXPECT_HAS(message, "has 9 dimensions");
  EXPECT_HAS(message, "parameter 1 of group 0 (float32 [2, 2, 2, 2, 2, 2, 2, 2, 2])");
  EXPECT_TRUE(torch::equal(good, torch::zeros({2}))) << "the first parameter was stepped";
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(BadInput, ParametersOfManyDimensionsTakeGradientsInOtherOrders) {
  const std::vector<std::int64_t> sizes = {2, 3, 1, 2, 2, 1, 3, 2, 2, 2};
  const auto stepped = [&](const torch::Tensor& g) {
    const auto p = leaf(torch::ones(sizes));
    AdamW optimizer({p}, AdamWOptions(0.1).state("int8").min_quantized_size(0));
    for (int step = 0; step < 2; ++step) {
      p.mutable_grad() = g;
      optimizer.step();
    }
    return p.detach();
  };
  torch::manual_seed(5);
  const torch::Tensor transposed =
      torch::randn({2, 2, 2, 3, 1, 2, 2, 1, 3, 2}).permute({9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  EXPECT_TRUE(torch::equal(stepped(transposed), stepped(transposed.contiguous())));
  const torch::Tensor expanded = torch::full({}, 0.5).expand(sizes);
  EXPECT_TRUE(torch::equal(stepped(expanded), stepped(expanded.contiguous())));
}

// Sums over rows need the dimensions, and so do a rule's sizes. Such a parameter could never be stepped.
TEST(BadInput, AConstructorRefusesDimensionsThatTheRuleCannotRead) {
  const auto many = leaf(torch::zeros({2, 1, 1, 1, 1, 1, 1, 2, 2}));
  const Tensors both = {leaf(torch::zeros({2})), many};
  for (const std::string& message : {argument_error([&] { Adafactor optimizer(both); }),
                                     argument_error([&] { Amos optimizer(both); })}) {
    EXPECT_HAS(message, "parameter 1 of group 0 (float32 [2, 1, 1, 1, 1, 1, 1, 2, 2])");
    EXPECT_HAS(message, "9 dimensions");
  }
  EXPECT_NO_THROW(AdamW({many})) << "it is dense, so that kernels take it as a vector";
}

TEST(BadInput, AWarningNamesAParameterThatIsListedAgain) {
  const auto p = leaf(torch::zeros({2})), q = leaf(torch::zeros({3})), r = leaf(torch::zeros({4}));
  const auto warning_for = [](const Tensors& parameters) {
    Warnings warnings;
    AdamW optimizer(parameters);
    optimizer.compile();
    return warnings.all;
  };
  EXPECT_HAS(warning_for({r, p, q, p, p}),
             "parameter 1 of group 0 (float32 [2]) is listed 3 times in its group, again as "
             "parameter 3.");
  EXPECT_HAS(warning_for({p, q, q, p, r, r}),
             "parameter 1 of group 0 (float32 [3]) is listed 2 times in its group, again as "
             "parameter 2 (2 "
             "more like it).");
  EXPECT_EQ(warning_for({p, q}), "");
}

TEST(BadInput, AFrozenParameterIsRejectedByNameAndATorchClassWarns) {
  const auto first = leaf(torch::zeros({2})), last = leaf(torch::zeros({5}));
  const auto warning_for = [](const Tensors& parameters) {
    Warnings warnings;
    AdamW optimizer(parameters);
    return warnings.all;
  };
  const Tensors one = {first, torch::zeros({3}), last};
  const Tensors three = {first, torch::zeros({3}), last, torch::zeros({4}), torch::zeros({3})};
  const std::string what = "parameter 1 of group 0 (float32 [3]) does not require a gradient";
  for (const Tensors& parameters : {one, three})
    EXPECT_HAS(argument_error([&] { Optimizer::from_spec(parameters, R"({"rule": "adamw"})"); }),
               what);
  EXPECT_HAS(warning_for(one), what);
  EXPECT_EQ(warning_for(one).find("more like it"), std::string::npos);
  EXPECT_HAS(warning_for(three), what);
  EXPECT_HAS(warning_for(three), "(2 more like it)");
  EXPECT_EQ(warning_for({first, last}), "");
}

TEST(BadInput, TheSameParameterInTwoGroups) {
  const auto p = leaf(torch::zeros({3})), q = leaf(torch::zeros({3}));
  AdamW optimizer({p});
  EXPECT_HAS(argument_error([&] {
               optimizer.add_param_group(OptimizerParamGroup({q, p}));
             }),
             "parameter 1 of group 1 (float32 [3]) is also parameter 0 of group 0");
  EXPECT_HAS(argument_error([&] {
               optimizer.add_parameters({q, p});
             }),
             "parameter 2 of group 0 (float32 [3]) is also parameter 0 of group 0");
  EXPECT_EQ(optimizer.param_groups().size(), 1u);
  EXPECT_EQ(optimizer.param_groups()[0].params().size(), 1u);
}

// torch's add_param_group() throws this too, after a first step. torch's constructor accepts both groups, and then
// each step steps the parameter twice.
TEST(BadInput, TheSameParameterInTwoGroupsGetsTorchsMessage) {
  const auto p = leaf(torch::zeros({3}));
  const std::vector<OptimizerParamGroup> twice = {OptimizerParamGroup({p}),
                                                  OptimizerParamGroup({p})};
  EXPECT_HAS(argument_error([&] { AdamW optimizer(twice); }),
             "some parameters appear in more than one parameter group");
  AdamW optimizer({p});
  for (const bool stepped : {false, true}) {
    if (stepped) train(optimizer, {p}, 1, 1);
    EXPECT_HAS(argument_error([&] { optimizer.add_param_group(OptimizerParamGroup({p})); }),
               "some parameters appear in more than one parameter group");
  }
}

TEST(BadInput, AParameterThatIsAddedToItsOwnGroupThrows) {
  const auto p = leaf(torch::zeros({3}));
  AdamW optimizer({p});
  EXPECT_HAS(argument_error([&] { optimizer.add_parameters({p}); }),
             "parameter 1 of group 0 (float32 [3]) is also parameter 0 of group 0");
  EXPECT_EQ(optimizer.param_groups()[0].params().size(), 1u);
}

TEST(BadInput, AMessageNamesAnAddedParameterByItsFutureIndex) {
  const auto made = torch::zeros({6});
  const auto p = leaf(made), q = leaf(torch::zeros({2}));
  Optimizer optimizer("adamw", {p, q});
  const auto added = [&](const torch::Tensor& bad) {
    const Tensors more = {leaf(torch::zeros({4})), bad};
    return argument_error([&] { optimizer.add_parameters(more); });
  };
  EXPECT_HAS(added(torch::zeros({5}, torch::kInt64)), "parameter 3 of group 0 (long int [5])");
  EXPECT_HAS(added(torch::zeros({5})), "parameter 3 of group 0 (float32 [5]) does not require");
  EXPECT_HAS(added(leaf(made.detach().slice(0, 0, 3))),
             "parameter 0 of group 0 (float32 [6]) and parameter 3 of group 0 (float32 [3]) share");
  EXPECT_HAS(
      argument_error([&] { optimizer.add_param_group(OptimizerParamGroup({torch::Tensor()})); }),
      "parameter 0 of group 1 is an undefined tensor");
  EXPECT_EQ(optimizer.param_groups()[0].params().size(), 2u);
}

TEST(BadInput, OptionsOutOfRange) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const Tensors parameters = make_parameters();
  EXPECT_HAS(error_for(parameters, AdamWOptions(-1)), "lr is -1");
  EXPECT_HAS(error_for(parameters, AdamWOptions(nan)), "lr is nan");
  EXPECT_HAS(error_for(parameters, AdamWOptions(infinity)), "lr is inf");
  EXPECT_HAS(error_for(parameters, AdamWOptions().betas({1.0, 0.9})), "betas[0] is 1");
  EXPECT_HAS(error_for(parameters, AdamWOptions().betas({0.9, -0.1})), "betas[1] is -0.1");
  EXPECT_HAS(error_for(parameters, AdamWOptions().eps(-1e-8)), "eps is -1e-08");
  EXPECT_HAS(error_for(parameters, AdamWOptions().grad_scale(0)), "grad_scale is 0");
  EXPECT_HAS(argument_error([&] { SGD(parameters, SGDOptions(0.1).nesterov(true)); }),
             "Nesterov momentum requires a momentum and zero dampening");
}

TEST(BadInput, OptionsOfAGroupAndAtStepTime) {
  Tensors parameters = make_parameters();
  AdamW optimizer({parameters[0]});
  EXPECT_HAS(argument_error([&] {
               optimizer.add_param_group(
                   {{parameters[1]}, std::make_unique<AdamWOptions>(AdamWOptions(-1))});
             }),
             "lr is -1");
  EXPECT_EQ(optimizer.param_groups().size(), 1u);
  train(optimizer, parameters, 1, 1);
  const Tensors before = clones(parameters);
  optimizer.param_groups()[0].options().set_lr(std::nan(""));
  set_gradients(parameters, 2);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "lr is nan");
  expect_equal(parameters, before);
  optimizer.param_groups()[0].options().set_lr(0.1);
  EXPECT_NO_THROW(optimizer.step());
}

TEST(BadInput, OptionsOfAnotherOptimizer) {
  const Tensors parameters = make_parameters();
  EXPECT_HAS(argument_error([&] {
               AdamW({OptimizerParamGroup({parameters[0]},
                                          std::make_unique<torch::optim::AdamWOptions>())});
             }),
             "belong to another optimizer");
  EXPECT_HAS(argument_error([&] {
               AdamW({OptimizerParamGroup({parameters[0]}, std::make_unique<AdamOptions>())});
             }),
             "belong to another optimizer");
}

TEST(BadInput, OptionsThatAProgramReplacesByThoseOfAnotherOptimizer) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  optimizer.param_groups()[0].set_options(std::make_unique<torch::optim::AdamWOptions>());
  std::stringstream stream;
  std::string problem = "were replaced by those of another optimizer";
  const auto expect_refused = [&](const auto& call) { EXPECT_HAS(argument_error(call), problem); };
  expect_refused([&] { torch::save(optimizer, stream); });
  expect_refused([&] { optimizer.add_parameters({torch::zeros({2}).requires_grad_()}); });
  expect_refused([&] { optimizer.step(); });
  std::stringstream saved;
  torch::save(AdamW(parameters), saved);
  expect_refused([&] { torch::load(optimizer, saved); });
  optimizer.param_groups()[0].set_options(nullptr);
  problem = "were removed";
  expect_refused([&] { torch::save(optimizer, stream); });
  expect_refused([&] { optimizer.step(); });
}

TEST(BadInput, FormatsThatDoNotExist) {
  const Tensors single = make_parameters(torch::kFloat32);
  EXPECT_HAS(error_for(single, AdamWOptions().weights("none")), "native");
  EXPECT_HAS(error_for(single, AdamWOptions().state("int7")), "int8");
  EXPECT_HAS(error_for(single, AdamWOptions().state("exp_avgs", "int8")), "Slots: m, v, vmax");
  EXPECT_HAS(error_for({}, AdamWOptions().state("int7")), "int8") << "even without parameters";
}

// A rejected step changes neither parameters nor state.
void expect_gradient_rejected(const torch::Tensor& gradient, const std::string& part) {
  Tensors parameters = make_parameters(torch::kFloat32, {{3, 3}, {3, 3}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  const Tensors before = clones(parameters);
  set_gradients(parameters, 2);
  parameters[1].mutable_grad() = gradient;
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), part);
  expect_equal(parameters, before);
  for (const auto& [key, state] : optimizer.state())
    EXPECT_EQ(static_cast<AdamWParamState&>(*state).step(), 1);
}

TEST(BadInput, GradientsThatDoNotFit) {
  expect_gradient_rejected(torch::eye(3).to_sparse(), "is sparse");
  expect_gradient_rejected(torch::zeros({3, 4}), "shape [3, 4]");
  expect_gradient_rejected(torch::zeros({3, 3}, torch::kInt32), "int");
  expect_gradient_rejected(torch::zeros({3, 3}, torch::kMeta), "meta");
}

// A rule whose manifest is valid and whose formula does not compile.
std::string broken_rule() {
  return own_file("misspelt.cuh", R"(// Plain descent with a misspelled name.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::misspelt {
struct Hyper {
  double lr = 1e-3;  // >= 0
};
struct Scalars { real lr; };
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.learning_rate * e.g; }
};
}  // namespace jitstep::rules::misspelt
)");
}

TEST(BadInput, ARuleThatDoesNotCompileLeavesParametersAndStateUntouched) {
  load_rule(broken_rule());
  Tensors parameters = make_parameters();
  const Tensors before = clones(parameters);
  Optimizer optimizer("misspelt", parameters);
  set_gradients(parameters, 1);
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      optimizer.step();
      ADD_FAILURE() << "it compiled";
    } catch (const CompileError& error) {
      EXPECT_HAS(error.what(), "learning_rate");
    }
    EXPECT_TRUE(optimizer.state().empty());
    expect_equal(parameters, before);
  }
}

}  // namespace
}  // namespace jitstep::tests
