// Host transforms: functions of the host that rules name. Their arguments, their results, and Muon's.
#include <ATen/autocast_mode.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

// A rule whose parameter becomes the result of its host transform for the gradient.
std::string rule_text(const std::string& name, const std::string& transform) {
  return "// A probe.   host transform: " + transform + R"(
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::)" +
         name + R"( {
struct Hyper {
  double lr = 1;    // >= 0
  double size = 2;  // finite
};
struct Slots {
  Signed m;
};
struct Rule {
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.m.prev + e.g; }
  KHD static real transformed(const auto& e, const auto&) { return e.g; }
  KHD static void update_param(auto& e, const auto&) { e.p = e.transformed; }
};
}
)";
}

std::string rule_with_transform(const std::string& name, const std::string& transform) {
  return load_rule(own_file(name + ".cuh", rule_text(name, transform)));
}

// A host transform that runs the function of the current test.
TransformFunction& current() {
  static TransformFunction function;
  return function;
}
std::string probing() {
  static const std::string rule = [] {
    register_host_transform("probe_transform",
                            [](const torch::Tensor& values, const jit::OptionValues& options) {
                              return current()(values, options);
                            });
    return rule_with_transform("probing", "probe_transform");
  }();
  return rule;
}

TEST(HostTransforms, AreNamedAtConstructionIfNotRegistered) {
  const std::string rule = rule_with_transform("unregistered", "nowhere");
  const std::string error =
      argument_error([&] { Optimizer(rule, make_parameters(), GenericOptions()); });
  EXPECT_HAS(
      error,
      "the rule unregistered names an unknown host transform \"nowhere\". Known: newton_schulz");
  EXPECT_HAS(error, "register_host_transform");
}

TEST(HostTransforms, GetZerosInASkippedStep) {
  Tensors parameters = make_parameters();
  const Tensors before = clones(parameters);
  Optimizer optimizer(probing(), parameters);
  int zeros = 0;
  current() = [&](const torch::Tensor& values, const jit::OptionValues&) {
    zeros += values.any().item<bool>() ? 0 : 1;
    return torch::ones_like(values);
  };
  for (const auto& p : parameters) p.mutable_grad() = torch::full_like(p.detach(), NAN);
  optimizer.set_found_inf(torch::ones({}));
  optimizer.step();
  EXPECT_EQ(zeros, 3);
  expect_equal(parameters, before);
}

TEST(HostTransforms, AreRegisteredOnce) {
  const auto same = [](const torch::Tensor& values, const jit::OptionValues&) { return values; };
  EXPECT_HAS(argument_error([&] { register_host_transform("newton_schulz", same); }),
             "\"newton_schulz\" is registered already");
  EXPECT_HAS(argument_error([&] { register_host_transform("nothing", nullptr); }),
             "an empty function");
}

TEST(HostTransforms, GetTensorsLikeTheParametersAndTheOptionsOfTheirGroups) {
  const std::string rule = probing();
  Tensors parameters = {torch::zeros({3, 5}),
                        torch::zeros({5, 3}).t(),
                        torch::zeros({}),
                        torch::zeros({4}, torch::kFloat64),
                        torch::zeros({4}, torch::kBFloat16),
                        torch::zeros({0, 2})};
  for (auto& p : parameters) p.requires_grad_();
  std::vector<OptimizerParamGroup> groups = {
      OptimizerParamGroup({parameters[0], parameters[1], parameters[2], parameters[5]})};
  groups.emplace_back(Tensors{parameters[3], parameters[4]},
                      std::make_unique<GenericOptions>(GenericOptions(1).set("size", 3.0)));
  Optimizer optimizer(rule, groups);
  set_gradients(parameters, 1);
  int calls = 0;
  current() = [&](const torch::Tensor& values, const jit::OptionValues& options) {
    ++calls;
    const auto whose = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) {
      return p.sizes() == values.sizes() && torch::equal(p.grad().to(values.dtype()), values);
    });
    EXPECT_NE(whose, parameters.end());
    EXPECT_EQ(values.scalar_type(),
              whose->scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
    EXPECT_FALSE(torch::GradMode::is_enabled());
    return values * options.get("size").number();
  };
  optimizer.step();
  EXPECT_EQ(calls, 5) << "the last parameter is empty";
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(torch::equal(parameters[i].detach(), parameters[i].grad() * (i < 3 ? 2 : 3))) << i;
}

TEST(HostTransforms, MayReadTheStepNumberOfTheirParameter) {
  static std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> calls;
  register_parameter_transform("numbered", [](const TransformCall& call) {
    calls.emplace_back(call.values.sizes().vec(), call.step());
    call.values.mul_(call.options.get("size").number());
  });
  Tensors parameters = make_parameters(torch::kFloat32, {{2, 3}, {4}});
  Optimizer optimizer(rule_with_transform("numbered_steps", "numbered"), parameters);
  for (int step = 1; step <= 3; ++step) {
    set_gradients(parameters, step);
    if (step == 1) parameters[1].mutable_grad().reset();
    optimizer.set_found_inf(step == 2 ? torch::ones({}) : torch::zeros({}));
    optimizer.step();
  }
  // The second step is skipped: the third one has its number.
  using Calls = std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>>;
  EXPECT_EQ(calls, (Calls{{{2, 3}, 1}, {{2, 3}, 2}, {{4}, 1}, {{2, 3}, 2}, {{4}, 1}}));
  for (const auto& p : parameters) EXPECT_TRUE(torch::equal(p.detach(), 2 * p.grad()));
  EXPECT_HAS(argument_error([&] { register_parameter_transform("nothing", nullptr); }),
             "an empty function");
}

TEST(HostTransforms, ChangeNothingIfTheyFail) {
  const std::string rule = probing();
  Tensors parameters = make_parameters();
  Optimizer optimizer(rule, parameters, GenericOptions());
  set_gradients(parameters, 1);
  const Tensors before = clones(parameters);
  const auto failing = [&](const TransformFunction& transform) {
    current() = transform;
    const std::string error = argument_error([&] { optimizer.step(); });
    expect_equal(parameters, before);
    EXPECT_TRUE(optimizer.state().empty());
    return error;
  };
  EXPECT_HAS(failing([](const torch::Tensor& values, const auto&) {
               TORCH_CHECK(values.dim() > 0, "no scalars");  // the last parameter
               return values;
             }),
             "no scalars");
  EXPECT_HAS(failing([](const torch::Tensor& values, const auto&) { return values.flatten(); }),
             "a host transform returned float32 [15] for values of float32 [5, 3]");
  EXPECT_HAS(failing([](const auto&, const auto&) { return torch::Tensor(); }),
             "a host transform returned no tensor");
  EXPECT_HAS(failing([&](const torch::Tensor& values, const auto&) {
               optimizer.step();
               return values;
             }),
             "is running");
  current() = [](const torch::Tensor& values, const auto&) { return values.to(torch::kFloat64); };
  optimizer.step();
  for (const auto& p : parameters) EXPECT_TRUE(torch::equal(p.detach(), p.grad()));
}

TEST(HostTransforms, OfMuonAcceptOnlyMatrices) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{6}, {}, {2, 3, 4}}) {
    const std::string error = argument_error([&] {
      Muon optimizer(make_parameters(torch::kFloat32, {{2, 3}, shape}));
    });
    EXPECT_HAS(error, "muon: takes only matrices");
    EXPECT_HAS(error, "parameter 1");
  }
  Muon optimizer(make_parameters(torch::kFloat32, {{2, 3}}));
  EXPECT_HAS(argument_error([&] { optimizer.add_parameters({torch::zeros({3})}); }),
             "only matrices");
}

// Compares with torch's operations, in the order of torch.optim.Muon.
TEST(HostTransforms, OfMuonIterateAsInTorch) {
  Tensors parameters = make_parameters(torch::kFloat32, {{24, 40}, {40, 24}}),
          expected = clones(parameters);
  Muon optimizer(parameters, MuonOptions(0.02).momentum(0.9).weight_decay(0.1).ns_steps(3));
  Tensors momenta = {torch::zeros({24, 40}), torch::zeros({40, 24})};
  torch::NoGradGuard no_grad;
  for (int step = 1; step <= 3; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
    for (std::size_t i = 0; i < 2; ++i) {
      const torch::Tensor& g = parameters[i].grad();
      momenta[i].lerp_(g, 0.1);
      torch::Tensor x = g.lerp(momenta[i], 0.9).to(torch::kBFloat16);
      if (i == 1) x = x.t();
      x.div_(x.norm().clamp_min(1e-7));
      for (int round = 0; round < 3; ++round) {
        const auto a = x.mm(x.t());
        x = torch::addmm(x, torch::addmm(a, a, a, -4.775, 2.0315), x, 3.4445);
      }
      if (i == 1) x = x.t();
      expected[i]
          .mul_(1 - 0.02 * 0.1)
          .sub_(x.to(torch::kFloat32), 0.02 * (i == 1 ? std::sqrt(40.0 / 24) : 1));
    }
  }
  // The momentum may differ in its last bit, and therefore a few roundings to bfloat16.
  expect_close(parameters, expected, 0, 2e-4);
}

// A caller may forget to disable autocast before the step.
struct Autocast {
  Autocast() { at::autocast::set_autocast_enabled(at::kCPU, true); }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
};

TEST(HostTransforms, OfMuonIterateInTheirOwnDtypeUnderAutocast) {
  using Dtype = MuonOptions::IterationDtype;
  for (const Dtype dtype : {Dtype::real, Dtype::bf16}) {
    const Tensors parameters = make_parameters(torch::kFloat32, {{24, 40}, {7, 7}, {40, 24}}),
                  expected = clones(parameters);
    Muon optimizer(parameters, MuonOptions(0.1).ns_dtype(dtype)),
        reference(expected, MuonOptions(0.1).ns_dtype(dtype));
    train(reference, expected, 1, 3);
    {
      const Autocast on;
      train(optimizer, parameters, 1, 3);
    }
    expect_equal(parameters, expected);
  }
}

TEST(HostTransforms, RunWithoutAutocastAndTheClosureKeepsIt) {
  torch::Dtype of_closure = torch::kFloat32, of_transform = torch::kBFloat16;
  const torch::Tensor matrix = torch::ones({4, 4});
  current() = [&](const torch::Tensor& values, const jit::OptionValues&) {
    of_transform = matrix.mm(matrix).scalar_type();
    return values;
  };
  const Tensors parameters = make_parameters(torch::kFloat32, {{4, 4}});
  Optimizer optimizer(probing(), parameters);
  set_gradients(parameters, 1);
  const Autocast on;
  optimizer.step([&] {
    of_closure = matrix.mm(matrix).scalar_type();
    return torch::zeros({});
  });
  EXPECT_EQ(of_closure, torch::kBFloat16);
  EXPECT_EQ(of_transform, torch::kFloat32);
  EXPECT_EQ(matrix.mm(matrix).scalar_type(), torch::kBFloat16)
      << "the step did not restore autocast";
}

// An overflow in the statistics would make every later root impossible.
TEST(HostTransforms, OfShampooContinueAfterAGradientThatOverflows) {
  Tensors parameters = make_parameters(torch::kFloat32, {{3, 4}});
  Shampoo optimizer(parameters, ShampooOptions(0.1).precondition_frequency(2));
  train(optimizer, parameters, 1, 2);
  parameters[0].mutable_grad() = torch::full({3, 4}, 1e30);
  optimizer.step();
  train(optimizer, parameters, 4, 6);
  EXPECT_TRUE(parameters[0].isfinite().all().item<bool>());
}

// A rule whose options the built-in transforms cannot use: the declarations are missing, or of other types.
TEST(HostTransforms, ThatShipNameTheOptionsThatTheyNeed) {
  const auto error_of_step = [](const std::string& rule) {
    Tensors parameters = make_parameters(torch::kFloat32, {{3, 4}});
    Optimizer optimizer(rule, parameters);
    set_gradients(parameters, 1);
    return argument_error([&] { optimizer.step(); });
  };
  const auto rule = [](const std::string& name, const std::string& transform,
                       const std::string& options) {
    std::string text = rule_text(name, transform);
    const std::string last = "  double size = 2;  // finite\n";
    return load_rule(own_file(name + ".cuh", text.insert(text.find(last), options)));
  };
  EXPECT_HAS(error_of_step(rule("orthogonal", "newton_schulz", "")), "ns_coefficients");
  EXPECT_HAS(error_of_step(rule("two_numbers", "newton_schulz",
                                "  Numbers<2> ns_coefficients = {1, 2};  // finite\n"
                                "  double ns_steps = 5;  // integer; in [0, 99]\n"
                                "  double eps = 1e-7;    // > 0\n")),
             "two_numbers. Declare `Numbers<3> ns_coefficients`");
  EXPECT_HAS(
      error_of_step(rule("never", "shampoo", "  double precondition_frequency = 0;  // finite\n")),
      "precondition_frequency of the rule never is 0");
}

// torch multiplies several matrices in one call by other code than one matrix. jitstep uses one path for any number.
TEST(HostTransforms, OfMuonDoNotDependOnTheOtherMatrices) {
  for (const auto dtype : {MuonOptions::IterationDtype::bf16, MuonOptions::IterationDtype::real})
    for (const auto type : {torch::kFloat32, torch::kFloat64}) {
      Tensors together = make_parameters(type, {{20, 16},
                                                {40, 16},
                                                {24, 40},
                                                {7, 7},
                                                {40, 24},
                                                {3, 5},
                                                {24, 40},
                                                {1, 1},
                                                {5, 3},
                                                {7, 7},
                                                {3, 5}});
      const Tensors alone = clones(together);
      const auto options = MuonOptions(0.1).ns_dtype(dtype);
      Muon all(together, options);
      train(all, together, 1, 3);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        Muon one({alone[i]}, options);
        for (int step = 1; step <= 3; ++step) {
          set_gradients(together, step);
          alone[i].mutable_grad() = together[i].grad();
          one.step();
        }
      }
      expect_equal(together, alone);
    }
}

}  // namespace
}  // namespace jitstep::tests
