#include <jitstep/grad_accumulator.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

#include "optim/optimizer/backward.h"

namespace jitstep::tests {
namespace {

namespace autograd = torch::autograd;

const auto kFloats = GradAccumulatorOptions().dtype(torch::kFloat32);

struct CountingHook : autograd::PostAccumulateGradHook {
  explicit CountingHook(int& count, bool drops = false) : count_(count), drops_(drops) {}
  void operator()(const torch::Tensor& p) override {
    ++count_;
    if (drops_) p.mutable_grad().reset();
  }
  int& count_;
  bool drops_;
};

TEST(GradHooks, KeepsExistingHooks) {
  const torch::Tensor p = leaf({3});
  int count = 0;
  autograd::impl::set_post_acc_grad_hooks(p, std::make_unique<CountingHook>(count));
  {
    GradAccumulator sums({p}, kFloats);
    backward(p, torch::ones({3}));
    EXPECT_EQ(count, 1);
    EXPECT_EQ(sums.micro_batches(), 1);
  }
  backward(p, torch::ones({3}));
  EXPECT_EQ(count, 2);
  EXPECT_TRUE(p.grad().defined());
}

TEST(GradHooks, LeavesAGradientThatAnotherHookTook) {
  const torch::Tensor p = leaf({3});
  int count = 0;
  autograd::impl::set_post_acc_grad_hooks(p, std::make_unique<CountingHook>(count, true));
  GradAccumulator sums({p});
  backward(p, torch::ones({3}));
  EXPECT_EQ(sums.micro_batches(), 0);
}

// Wraps the existing hook, as other code may do.
struct WrappingHook : autograd::PostAccumulateGradHook {
  explicit WrappingHook(std::unique_ptr<PostAccumulateGradHook> inner) : inner_(std::move(inner)) {}
  void operator()(const torch::Tensor& p) override { (*inner_)(p); }
  std::unique_ptr<PostAccumulateGradHook> inner_;
};

TEST(GradHooks, DoesNothingAfterItsEndIfAnotherHookWrapsIt) {
  const torch::Tensor p = leaf({3});
  {
    GradAccumulator sums({p});
    auto& hook = autograd::impl::post_acc_grad_hooks(p);
    hook = std::make_unique<WrappingHook>(std::move(hook));
    backward(p, torch::ones({3}));
    EXPECT_EQ(sums.micro_batches(), 1);
  }
  backward(p, torch::ones({3}));
  EXPECT_EQ(p.grad().sum().item<float>(), 3);
}

TEST(GradHooks, LeavesGradientsAloneAfterItsEnd) {
  const torch::Tensor p = leaf({3});
  { const GradAccumulator sums({p}); }
  backward(p, torch::ones({3}));
  EXPECT_TRUE(p.grad().defined());
  EXPECT_EQ(autograd::impl::post_acc_grad_hooks(p), nullptr);
}

TEST(GradHooks, ContinuesAfterAMove) {
  const torch::Tensor p = leaf({3});
  GradAccumulator first({p}, kFloats);
  backward(p, torch::ones({3}));
  GradAccumulator second = std::move(first);
  backward(p, torch::ones({3}));
  EXPECT_EQ(second.micro_batches(), 2);
  second.assign_gradients();
  EXPECT_EQ(p.grad()[0].item<float>(), 2);
}

TEST(GradHooks, RejectsParametersOfAnotherAccumulator) {
  const Tensors parameters = make_parameters();
  const GradAccumulator sums({parameters[2]});
  EXPECT_HAS(argument_error([&] { GradAccumulator{parameters}; }),
             "parameter 2 (float32 []): its gradients already go to a GradAccumulator");
  backward(parameters, random_gradients(parameters, 1));  // the rejected accumulator left no hook
  EXPECT_TRUE(parameters[0].grad().defined());
  EXPECT_EQ(sums.micro_batches(), 1);
}

TEST(GradHooks, FollowParametersToAnotherGroup) {
  const torch::Tensor p = leaf({3}), q = leaf({2});
  SGD opt(Tensors{p, q}, SGDOptions(1));
  opt.step_in_backward();
  opt.param_groups()[0].params().pop_back();
  opt.param_groups().push_back(torch::optim::OptimizerParamGroup(Tensors{q}));
  opt.step();
  backward({p, q}, {torch::ones({3}), torch::ones({2})});
  EXPECT_TRUE(torch::equal(q.detach(), -torch::ones({2})));
}

TEST(GradHooks, RemainIfAGroupGotAParameterOfAnotherOwner) {
  const torch::Tensor p = leaf({3}), other = leaf({2});
  SGD opt(Tensors{p}, SGDOptions(1));
  opt.step_in_backward();
  const GradAccumulator sums({other}, kFloats);
  opt.param_groups()[0].params().push_back(other);
  EXPECT_HAS(argument_error([&] { opt.step(); }), "already go to a GradAccumulator");
  opt.param_groups()[0].params().pop_back();
  EXPECT_TRUE(opt.steps_in_backward());
  backward(p, torch::ones({3}));
  EXPECT_TRUE(torch::equal(p.detach(), -torch::ones({3})));
}

}  // namespace
}  // namespace jitstep::tests
