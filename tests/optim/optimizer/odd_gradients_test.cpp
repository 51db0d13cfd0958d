// Gradients in every form that autograd or a user may leave in .grad(), and parameters that change between steps.
#include <torch/autograd.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

// Whatever form the gradient has, the step equals that with a plain copy of it.
void expect_like_a_copy(const torch::Tensor& p, const torch::Tensor& g) {
  const auto a = leaf(p.clone()), b = leaf(p.clone());
  AdamW one({a}, AdamWOptions(0.1)), other({b}, AdamWOptions(0.1));
  a.mutable_grad() = g;
  b.mutable_grad() = g.detach().to(p.scalar_type()).contiguous().clone();
  const auto before = g.detach().clone();
  for (int step = 0; step < 2; ++step) {
    one.step();
    other.step();
  }
  EXPECT_TRUE(torch::equal(a, b)) << g.sizes() << g.strides() << g.dtype();
  EXPECT_TRUE(torch::equal(g, before)) << "the step wrote to the gradient";
}

torch::Tensor freed(torch::Tensor tensor) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr());
  return tensor;
}

// torch may mark a tensor as zero or negated, instead of writing its values.
TEST(OddGradients, OneThatIsOnlyMarkedAsZeroOrNegatedIsReadCorrectly) {
  const auto negated = torch::imag(torch::conj(torch::randn({40, 30}, torch::kComplexFloat)));
  ASSERT_TRUE(negated.is_neg());
  for (const bool zero : {true, false}) {
    Tensors ours = make_parameters(torch::kFloat32, {{40, 30}, {7}}), theirs = clones(ours);
    AdamW a(ours, AdamWOptions(0.1));
    torch::optim::AdamW b(theirs, torch::optim::AdamWOptions(0.1));
    for (int step = 1; step <= 4; ++step) {
      set_gradients(ours, step);
      set_gradients(theirs, step);
      if (step > 1) {
        ours[0].mutable_grad() = zero ? torch::_efficientzerotensor({40, 30}) : negated;
        theirs[0].mutable_grad() = zero ? torch::zeros({40, 30}) : negated.clone();
      }
      a.step();
      b.step();
    }
    expect_close(ours, theirs, 1e-6, 1e-7);
  }
}

TEST(OddGradients, AnyStridesAreRead) {
  const auto p = torch::randn({40, 30});
  expect_like_a_copy(p, torch::randn({1}).expand({40, 30}));
  expect_like_a_copy(p, torch::randn({30}).expand({40, 30}));
  expect_like_a_copy(p, torch::randn({40, 1}).expand({40, 30}));
  expect_like_a_copy(p, torch::randn({30, 40}).t());
  expect_like_a_copy(p, torch::randn({80, 90}).slice(0, 0, 80, 2).slice(1, 1, 91, 3));
  expect_like_a_copy(p, torch::randn({1201}).slice(0, 1).view({40, 30}));
  expect_like_a_copy(torch::randn({2, 3, 4, 5}),
                     torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast));
  expect_like_a_copy(torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast),
                     torch::randn({2, 3, 4, 5}));
  expect_like_a_copy(torch::randn({}), torch::randn({7})[3]);
  expect_like_a_copy(torch::randn({0, 3}), torch::randn({0, 3}));
}

// The rule divides by the larger one of the second moment and eps * eps, which is less than the smallest float here.
TEST(OddGradients, OfZerosLeaveParametersOfStableAdamWFiniteForATinyEps) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    Tensors parameters = make_parameters(dtype);
    const Tensors before = clones(parameters);
    StableAdamW optimizer(parameters, StableAdamWOptions(0.1).eps(1e-30).weight_decay(0));
    for (const auto& p : parameters) p.mutable_grad() = torch::zeros_like(p);
    optimizer.step();
    expect_equal(parameters, before);
  }
}

TEST(OddGradients, AnotherFloatingDtypeIsRead) {
  const auto exact = torch::randn({500}, torch::kBFloat16);  // exact in every wider format
  for (const auto dtype : {torch::kBFloat16, torch::kFloat32, torch::kFloat64}) {
    const auto p = torch::randn({500}, dtype);
    for (const auto other : {torch::kBFloat16, torch::kFloat32, torch::kFloat64})
      expect_like_a_copy(p, exact.to(other));
  }
}

TEST(OddGradients, AGradientWithAGraphIsRead) {
  const auto p = leaf(torch::randn({20})), q = leaf(p.clone());
  const auto grad = torch::autograd::grad({p.pow(3).sum()}, {p}, {}, true, true)[0];
  ASSERT_TRUE(grad.requires_grad());
  p.mutable_grad() = grad;
  q.mutable_grad() = grad.detach().clone();
  AdamW one({p}), other({q});
  one.step();
  other.step();
  EXPECT_TRUE(torch::equal(p, q));
}

TEST(OddGradients, UnreadableGradientsAreRejectedAndNothingChanges) {
  const std::vector<std::pair<torch::Tensor, const char*>> cases = {
      {torch::eye(3).to_sparse(), "sparse"},
      {torch::eye(3).to_sparse_csr(), "sparse"},
      {torch::zeros({3, 3}, torch::kComplexFloat), "c10::complex"},
      {torch::zeros({3, 3}, torch::kInt64), "long"},
      {torch::zeros({3, 3}, torch::kBool), "bool"},
      {torch::zeros({3, 3}, torch::kFloat8_e4m3fn), "not supported"},
      {torch::quantize_per_tensor(torch::zeros({3, 3}), 0.1, 0, torch::kQInt8), "qint8"},
      {torch::zeros({3, 3}, torch::kMeta), "on meta"},
      {torch::zeros({9}), "shape [9]"},
      {torch::zeros({3, 1}), "shape [3, 1]"},
      {torch::zeros({3, 3}).to_mkldnn(), "layout Mkldnn"},
      {freed(torch::zeros({3, 3})), "no data"},
  };
  for (const auto& [gradient, part] : cases) {
    Tensors parameters = make_parameters(torch::kFloat32, {{3, 3}, {3, 3}});
    AdamW optimizer(parameters);
    train(optimizer, parameters, 1, 1);
    const Tensors before = clones(parameters);
    set_gradients(parameters, 2);
    parameters[1].mutable_grad() = gradient;
    const std::string message = argument_error([&] { optimizer.step(); });
    EXPECT_HAS(message, part);
    EXPECT_HAS(message, "parameter 1 of group 0");
    expect_equal(parameters, before);
    for (const auto& [key, state] : optimizer.state())
      EXPECT_EQ(static_cast<AdamWParamState&>(*state).step(), 1);
  }
}

TEST(OddParameters, OnesWithoutKernelsAreRejectedByName) {
  const auto error_for = [](const torch::Tensor& p) {
    return argument_error([&] { AdamW optimizer({leaf(torch::zeros({1})), p}); });
  };
  EXPECT_HAS(error_for(torch::zeros({3}, torch::kMeta).requires_grad_()), "is on meta");
  EXPECT_HAS(error_for(leaf(torch::imag(torch::conj(torch::zeros({3}, torch::kComplexFloat))))),
             "resolve_neg()");
  EXPECT_HAS(error_for(torch::quantize_per_tensor(torch::zeros({3}), 0.1, 0, torch::kQInt8)),
             "parameter 1 of group 0");
}

TEST(OddParameters, InferenceTensorsAreStepped) {
  torch::Tensor p;
  {
    c10::InferenceMode guard;
    p = torch::ones({5});
    p.mutable_grad() = torch::ones({5});
  }
  SGD optimizer({p}, 0.5);
  optimizer.step();
  EXPECT_TRUE(torch::equal(p.clone(), torch::full({5}, 0.5)));
}

// ---- parameters that change ----

TEST(OddParameters, AResizedOneIsRejectedUntilItsShapeIsRestored) {
  for (const char* codec : {"fp32", "int8"}) {
    Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}, {9}}),
            twin = clones(parameters);
    const auto options = AdamWOptions().state(codec);
    AdamW optimizer(parameters, options), other(twin, options);
    train(optimizer, parameters, 1, 2);
    const auto whole = parameters[0].detach();
    parameters[0].set_data(whole.slice(0, 0, 69).clone());
    set_gradients(parameters, 3);
    const auto neighbor = parameters[1].detach().clone();
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "parameter 0 of group 0");
    EXPECT_TRUE(torch::equal(parameters[1], neighbor));
    parameters[0].set_data(whole);
    train(optimizer, parameters, 3, 4);
    train(other, twin, 1, 4);
    expect_equal(parameters, twin);
  }
}

TEST(OddParameters, StateMovesWithAModelToDouble) {
  Tensors parameters = make_parameters(torch::kFloat32, {{40, 30}, {5}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 2);
  Tensors wide;
  std::vector<Tensors> slots;
  for (auto& p : parameters) {
    auto& state = static_cast<AdamWParamState&>(*optimizer.state()[p.unsafeGetTensorImpl()]);
    slots.push_back({state.exp_avg().to(torch::kFloat64), state.exp_avg_sq().to(torch::kFloat64)});
    wide.push_back(leaf(p.detach().to(torch::kFloat64).clone()));
    p.set_data(p.detach().to(torch::kFloat64));
    p.mutable_grad() = torch::Tensor();
  }
  AdamW other(wide);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    auto state = std::make_unique<AdamWParamState>();
    state->step(2).exp_avg(slots[i][0]).exp_avg_sq(slots[i][1]);
    other.state()[wide[i].unsafeGetTensorImpl()] = std::move(state);
  }
  train(optimizer, parameters, 3, 5);
  train(other, wide, 3, 5);
  expect_equal(parameters, wide);
}

TEST(OddParameters, ADtypeWithoutKernelsIsRejectedByNameAndNothingIsLost) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 70}}), twin = clones(parameters);
  const auto options = AdamWOptions().state("int8");
  AdamW optimizer(parameters, options), other(twin, options);
  train(optimizer, parameters, 1, 2);
  const auto own = parameters[0].detach();
  for (const auto dtype : {torch::kFloat8_e4m3fn, torch::kComplexFloat}) {
    parameters[0].mutable_grad() = torch::Tensor();
    parameters[0].set_data(own.to(dtype));
    parameters[0].mutable_grad() = torch::zeros({70, 70});
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "parameter 0 of group 0");
  }
  parameters[0].mutable_grad() = torch::Tensor();
  parameters[0].set_data(own);
  train(optimizer, parameters, 3, 4);
  train(other, twin, 1, 4);
  expect_equal(parameters, twin);
}

TEST(OddParameters, AFreedStorageIsRejectedAndMayBeReplaced) {
  Tensors parameters = make_parameters(torch::kFloat32, {{100}, {50}}), twin = clones(parameters);
  AdamW optimizer(parameters), other(twin);
  train(optimizer, parameters, 1, 2);
  const auto values = parameters[0].detach().clone();
  set_gradients(parameters, 3);
  parameters[0].storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr());
  parameters[0].storage().unsafeGetStorageImpl()->set_nbytes(0);
  const auto neighbor = parameters[1].detach().clone();
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "was freed");
  EXPECT_TRUE(torch::equal(parameters[1], neighbor));
  parameters[0].set_data(values);
  train(optimizer, parameters, 3, 4);
  train(other, twin, 1, 4);
  expect_equal(parameters, twin);
}

// ---- state that the program sets ----

TEST(OddState, ValuesAtStepZeroAreRejectedRatherThanIgnored) {
  const auto p = leaf(torch::randn({5}));
  AdamW optimizer({p});
  auto state = std::make_unique<AdamWParamState>();
  state->exp_avg(torch::ones({5})).exp_avg_sq(torch::ones({5}));
  optimizer.state()[p.unsafeGetTensorImpl()] = std::move(state);
  p.mutable_grad() = torch::ones({5});
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "Set step() to 1 or more");
  auto& held = static_cast<AdamWParamState&>(*optimizer.state()[p.unsafeGetTensorImpl()]);
  held.step(1);
  EXPECT_NO_THROW(optimizer.step());
  held.step(0);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "step number is 0");
  held.step(-1);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "step is -1");
}

TEST(OddState, StateOfAnotherOptimizerIsRejectedOnEveryAttempt) {
  const auto p = leaf(torch::ones({5}));
  AdamW optimizer({p});
  const auto replaced_by = [&](std::unique_ptr<torch::optim::OptimizerParamState> state) {
    optimizer.state()[p.unsafeGetTensorImpl()] = std::move(state);
    p.mutable_grad() = torch::ones({5});
    for (int attempt = 0; attempt < 2; ++attempt)
      EXPECT_HAS(argument_error([&] { optimizer.step(); }), "replaced by another optimizer's");
    EXPECT_TRUE(torch::equal(p, torch::ones({5})));
  };
  replaced_by(std::make_unique<AdamParamState>());
  replaced_by(std::make_unique<torch::optim::AdamWParamState>());
  optimizer.state().clear();
  EXPECT_NO_THROW(optimizer.step());
}

TEST(OddState, AMissingSlotIsRejectedAsInTorch) {
  const auto p = leaf(torch::randn({5}));
  AdamW optimizer({p});
  auto state = std::make_unique<AdamWParamState>();
  state->step(3).exp_avg(torch::ones({5}));
  optimizer.state()[p.unsafeGetTensorImpl()] = std::move(state);
  p.mutable_grad() = torch::ones({5});
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "lacks the slot exp_avg_sq");
}

}  // namespace
}  // namespace jitstep::tests
