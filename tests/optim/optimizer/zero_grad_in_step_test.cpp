// Gradients that a step clears after it reads them.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

bool is_zero(const torch::Tensor& tensor) { return !tensor.any().item<bool>(); }

// A step that clears this gradient equals one that does not.
void expect_cleared(const torch::Tensor& g) {
  const auto a = leaf(torch::randn(g.sizes())), b = leaf(a.clone());
  AdamW one({a}, AdamWOptions(0.1)), other({b}, AdamWOptions(0.1));
  one.zero_grad_in_step();
  b.mutable_grad() = g.clone();
  a.mutable_grad() = g;
  one.step();
  other.step();
  EXPECT_TRUE(torch::equal(a, b)) << g.sizes() << g.strides();
  EXPECT_TRUE(is_zero(g)) << g.sizes() << g.strides();
}

// The error of a step for gradients that it must not clear. Nothing changes. Without zero_grad_in_step() it is valid.
std::string error_for(const Tensors& parameters, const std::function<void(AdamW&)>& arrange) {
  AdamW optimizer(parameters);
  arrange(optimizer);
  optimizer.zero_grad_in_step();
  const Tensors before = clones(parameters);
  std::vector<torch::Tensor> gradients;
  for (const auto& p : parameters) gradients.push_back(p.grad().clone());
  const std::string message = argument_error([&] { optimizer.step(); });
  EXPECT_EQ(argument_error([&] { optimizer.step(); }), message) << "again";
  expect_equal(parameters, before);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(torch::equal(parameters[i].grad(), gradients[i]));
  optimizer.zero_grad_in_step(false);
  EXPECT_NO_THROW(optimizer.step());
  return message;
}

TEST(ZeroGradInStep, ClearsThroughAnyLayout) {
  torch::manual_seed(3);
  expect_cleared(torch::randn({40, 30}));
  expect_cleared(torch::randn({30, 40}).t());
  expect_cleared(torch::randn({1201}).slice(0, 1).view({40, 30}));
  expect_cleared(torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast));
  expect_cleared(torch::randn({7})[3]);
  expect_cleared(torch::randn({0, 3}));
  expect_cleared(torch::randn({5000}).to(torch::kBFloat16));
  expect_cleared(torch::imag(torch::conj(torch::randn({40, 30}, torch::kComplexFloat))));
  expect_cleared(torch::_efficientzerotensor({40, 30}));
}

TEST(ZeroGradInStep, DoesNotChangeMemoryBetweenTheElements) {
  const auto memory = torch::ones({80, 90});
  expect_cleared(memory.slice(0, 0, 80, 2).slice(1, 1, 91, 3));
  EXPECT_EQ(memory.sum().item<double>(), 80 * 90 - 40 * 30);
}

TEST(ZeroGradInStep, ClearsGradientsOfASkippedStep) {
  Tensors parameters = make_parameters();
  const Tensors before = clones(parameters);
  AdamW optimizer(parameters);
  optimizer.zero_grad_in_step();
  optimizer.set_found_inf(torch::ones({}));
  for (const auto& p : parameters) p.mutable_grad() = torch::full_like(p.detach(), NAN);
  optimizer.step();
  expect_equal(parameters, before);
  for (const auto& p : parameters) EXPECT_TRUE(is_zero(p.grad()));
}

TEST(ZeroGradInStep, LetsBackwardAccumulateIntoTheSameStorage) {
  const auto a = leaf(torch::randn({50})), b = leaf(a.clone());
  AdamW one({a}, AdamWOptions(0.1)), other({b}, AdamWOptions(0.1));
  one.zero_grad_in_step();
  const void* memory = nullptr;
  for (int step = 0; step < 3; ++step) {
    a.pow(2).sum().backward();
    other.zero_grad();
    b.pow(2).sum().backward();
    if (step > 0) {
      EXPECT_EQ(a.grad().const_data_ptr(), memory);
    }
    memory = a.grad().const_data_ptr();
    one.step();
    other.step();
  }
  EXPECT_TRUE(torch::equal(a, b));
}

TEST(ZeroGradInStep, ShowsAutogradThatTheGradientHasChanged) {
  const auto p = leaf(torch::ones({5}));
  AdamW optimizer({p});
  p.mutable_grad() = torch::ones({5});
  const auto version = p.grad()._version();
  optimizer.step();
  EXPECT_EQ(p.grad()._version(), version);
  EXPECT_FALSE(is_zero(p.grad())) << "clearing is off";
  optimizer.zero_grad_in_step();
  optimizer.step();
  EXPECT_GT(p.grad()._version(), version);
}

TEST(ZeroGradInStep, RejectsGradientsThatShareMemory) {
  const auto p = leaf(torch::ones({4})), q = leaf(torch::ones({4}));
  EXPECT_HAS(error_for({p}, [&](AdamW&) { p.mutable_grad() = torch::ones({1}).expand({4}); }),
             "the gradient of parameter 0 of group 0 (float32 [4]), which the step clears "
             "(zero_grad_in_step()), has elements that share memory");
  EXPECT_HAS(
      error_for({p, q}, [&](AdamW&) { q.mutable_grad() = p.mutable_grad() = torch::ones({4}); }),
      "shares memory with the gradient of parameter");
  EXPECT_HAS(error_for({p}, [&](AdamW&) { p.mutable_grad() = p.detach(); }),
             "shares memory with parameter 0 of group 0");
  EXPECT_HAS(error_for({p},
                       [&](AdamW& optimizer) {
                         p.mutable_grad() = torch::ones({4});
                         optimizer.step();
                         auto& state = *optimizer.state().at(p.unsafeGetTensorImpl());
                         p.mutable_grad() = static_cast<AdamWParamState&>(state).exp_avg();
                       }),
             "shares memory with the state of parameter 0 of group 0");
}

TEST(ZeroGradInStep, RejectsAGradientThatIsSharedLater) {
  const auto p = leaf(torch::ones({4})), q = leaf(torch::ones({4}));
  AdamW optimizer({p, q});
  optimizer.zero_grad_in_step();
  set_gradients({p, q}, 1);
  optimizer.step();
  q.mutable_grad() = p.grad();
  const Tensors before = clones({p, q});
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with the gradient of");
  expect_equal({p, q}, before);
}

}  // namespace
}  // namespace jitstep::tests
