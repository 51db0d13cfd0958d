// Inputs of a step in addition to gradients: set_input().
#include "optim/training.h"

namespace jitstep::tests {
namespace {

// AdaHessian without betas: a step of lr in the direction of g / (|h| + eps).
std::unique_ptr<Optimizer> adahessian(const Tensors& params) {
  return Optimizer::from_spec(params, R"({"rule": "adahessian", "options":
      {"lr": 1, "betas": [0, 0], "eps": 0.5}})");
}

torch::Tensor parameter(torch::IntArrayRef sizes, torch::Dtype dtype = torch::kFloat64) {
  auto p = torch::zeros(sizes, dtype).requires_grad_();
  p.mutable_grad() = torch::ones(sizes, dtype);
  return p;
}

TEST(StepInputs, AreReadOnceByTheNextStep) {
  const auto p = parameter({3, 5});
  const auto opt = adahessian({p});
  const auto h = torch::rand({3, 5}, torch::kFloat64) + 1;
  opt->set_input(p, "hessian", h);
  opt->step();
  EXPECT_TRUE(torch::allclose(p, -1 / (h + 0.5)));
  const auto before = p.detach().clone();
  opt->step();  // the second moment keeps its value
  EXPECT_TRUE(torch::allclose(p - before, -1 / (h + 0.5)));
}

TEST(StepInputs, FollowTheStorageOrderOfTheParameter) {
  auto p = torch::zeros({5, 3}, torch::kFloat64).t().requires_grad_();
  p.mutable_grad() = torch::ones_like(p);
  const auto opt = adahessian({p});
  const auto h = torch::rand({3, 5}, torch::kFloat32) + 1;
  opt->set_input(p, "hessian", h);
  opt->step();
  EXPECT_TRUE(torch::allclose(p, -1 / (h.to(torch::kFloat64) + 0.5)));
}

TEST(StepInputs, WaitForAGradient) {
  auto p = parameter({4}), other = parameter({4});
  const auto opt = adahessian({p, other});
  p.mutable_grad() = torch::Tensor();
  opt->set_input(p, "hessian", torch::ones({4}, torch::kFloat64));
  opt->step();
  p.mutable_grad() = torch::ones({4}, torch::kFloat64);
  opt->step();
  EXPECT_TRUE(torch::allclose(p, torch::full({4}, -1 / 1.5, torch::kFloat64)));
}

TEST(StepInputs, AreRefusedIfTheParameterHasAnotherFormNow) {
  const auto p = parameter({4});
  const auto opt = adahessian({p});
  opt->set_input(p, "hessian", torch::ones({4}, torch::kFloat64));
  p.set_data(torch::zeros({1 << 16}, torch::kFloat64));
  p.mutable_grad() = torch::ones_like(p);
  const std::string message = argument_error([&] { opt->step(); });
  EXPECT_HAS(message, "parameter 0 of group 0 (float64 [65536])");
  EXPECT_HAS(message, "set_input()");
  EXPECT_EQ(p.sum().item<double>(), 0);
  opt->set_input(p, "hessian", torch::ones_like(p));
  EXPECT_NO_THROW(opt->step());
}

TEST(StepInputs, ThatAreTakenBackDoNotBlockCapturableSteps) {
  const auto p = parameter({4});
  const auto opt = adahessian({p});
  opt->set_input(p, "hessian", torch::ones({4}, torch::kFloat64));
  opt->set_input(p, "hessian", {});
  opt->capturable(true);
  EXPECT_NO_THROW(opt->step());
}

TEST(StepInputs, CanBeTakenBack) {
  const auto p = parameter({4});
  const auto opt = adahessian({p});
  opt->set_input(p, "hessian", torch::ones({4}, torch::kFloat64));
  opt->set_input(p, "hessian", {});
  opt->step();
  EXPECT_TRUE(torch::allclose(p, torch::full({4}, -2.0, torch::kFloat64)));
}

TEST(StepInputs, OfARemovedParameterDoNotBlockCapturableSteps) {
  const auto p = parameter({4}), removed = parameter({4});
  const auto opt = adahessian({p, removed});
  opt->capturable();
  opt->set_input(removed, "hessian", torch::ones({4}, torch::kFloat64));
  opt->param_groups()[0].params().pop_back();
  EXPECT_NO_THROW(opt->step());
  EXPECT_THROW(opt->part_of(removed), c10::Error);
}

TEST(StepInputs, WorkInBackward) {
  auto p = torch::zeros({4}, torch::kFloat64).requires_grad_();
  const auto opt = adahessian({p});
  opt->step_in_backward();
  opt->set_input(p, "hessian", torch::ones({4}, torch::kFloat64));
  p.sum().backward();
  EXPECT_TRUE(torch::allclose(p, torch::full({4}, -1 / 1.5, torch::kFloat64)));
}

TEST(StepInputs, RefuseWhatTheyDoNotFit) {
  const auto p = parameter({4}), other = parameter({4});
  const auto opt = adahessian({p});
  const auto h = torch::ones({4}, torch::kFloat64);
  AdamW adamw({other}, AdamWOptions(1e-3));
  const auto error_of = [](Optimizer& of, const torch::Tensor& parameter, const char* name,
                           const torch::Tensor& value) {
    return argument_error([&] { of.set_input(parameter, name, value); });
  };
  EXPECT_HAS(error_of(*opt, other, "hessian", h), "not a parameter of this optimizer");
  EXPECT_HAS(error_of(*opt, p, "hessians", h), "has no input \"hessians\"");
  EXPECT_HAS(error_of(*opt, p, "hessian", torch::ones({5}, torch::kFloat64)), "has shape [5]");
  EXPECT_HAS(error_of(adamw, other, "hessian", h), "adamw has no inputs");
  opt->step();
  EXPECT_TRUE(torch::allclose(p, torch::full({4}, -2.0, torch::kFloat64))) << "none was kept";
}

TEST(StepInputs, AreRefusedByCapturableSteps) {
  const auto p = parameter({4});
  const auto opt = adahessian({p});
  opt->capturable();
  opt->set_input(p, "hessian", torch::ones({4}, torch::kFloat64));
  EXPECT_HAS(argument_error([&] { opt->step(); }), "does not work with capturable()");
  EXPECT_TRUE(torch::equal(p, torch::zeros_like(p)));
}

}  // namespace
}  // namespace jitstep::tests
