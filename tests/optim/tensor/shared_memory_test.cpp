// Parameters and gradients that share memory. jitstep throws if a step would write an element twice.
#include <ATen/ops/_lazy_clone.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

std::string error_for(const Tensors& parameters) {
  return argument_error([&] { SGD optimizer(parameters, 0.1); });
}

TEST(SharedMemory, TwoParametersThatShareMemoryAreRejectedAndBothAreNamed) {
  const auto w = torch::randn({10, 10}), flat = torch::randn({100});
  const auto buffer = torch::zeros({64}, torch::kUInt8);
  const std::vector<Tensors> pairs = {
      {leaf(w), leaf(w)},
      {leaf(w), leaf(w.t())},
      {leaf(w), leaf(w.view({100}))},
      {leaf(w), leaf(w[3])},
      {leaf(flat.slice(0, 0, 10)), leaf(flat.slice(0, 5, 15))},
      {leaf(flat.slice(0, 0, 100, 2)), leaf(flat.slice(0, 0, 100, 3))},
      {leaf(w.slice(1, 0, 4)), leaf(w.slice(1, 3, 8))},
      {leaf(buffer.view(torch::kFloat32)), leaf(buffer.view(torch::kBFloat16))},
  };
  for (const Tensors& pair : pairs) {
    const auto other = leaf(torch::zeros({3}));
    const std::string message = error_for({pair[0], other, pair[1]});
    EXPECT_HAS(message, "share memory");
    EXPECT_HAS(message, "parameter 0 of group 0");
    EXPECT_HAS(message, "parameter 2 of group 0");
  }
}

TEST(SharedMemory, AGroupThatSharesMemoryWithAnotherIsNotAdded) {
  const auto flat = torch::randn({100});
  const auto first = leaf(flat.slice(0, 0, 60)), second = leaf(flat.slice(0, 50, 100));
  AdamW optimizer({first});
  EXPECT_HAS(argument_error([&] { optimizer.add_param_group(OptimizerParamGroup({second})); }),
             "parameter 0 of group 1");
  EXPECT_HAS(argument_error([&] { optimizer.add_parameters({second}); }), "share memory");
  EXPECT_EQ(optimizer.param_groups().size(), 1u);
  EXPECT_EQ(optimizer.parameters().size(), 1u);
}

// Steps views of one buffer and clones of them. The elements must agree.
void expect_same_as_clones(const Tensors& views) {
  Tensors parameters, alone;
  for (const auto& view : views) {
    parameters.push_back(leaf(view));
    alone.push_back(view.detach().clone().requires_grad_());
  }
  AdamW one(parameters, AdamWOptions(0.1)), other(alone, AdamWOptions(0.1));
  for (int step = 1; step <= 3; ++step) {
    set_gradients(alone, step);
    for (std::size_t i = 0; i < views.size(); ++i)
      parameters[i].mutable_grad() = alone[i].grad().clone();
    one.step();
    other.step();
  }
  expect_equal(parameters, alone);
}

TEST(SharedMemory, AdjacentViewsOfOneBufferAreStepped) {
  const auto flat = torch::randn({10000});
  expect_same_as_clones({flat.slice(0, 0, 4000).view({50, 80}), flat.slice(0, 4000, 4001),
                         flat.slice(0, 4001, 10000)});
}

TEST(SharedMemory, InterleavedViewsOfOneBufferAreStepped) {
  const auto w = torch::randn({30, 50});
  expect_same_as_clones({w.slice(1, 0, 20), w.slice(1, 20, 50)});
  const auto flat = torch::randn({1000});
  expect_same_as_clones({flat.slice(0, 0, 1000, 2), flat.slice(0, 1, 1000, 2)});
}

TEST(SharedMemory, ParametersAndGradientsMayShareOneBuffer) {
  const auto flat = torch::randn({200});
  const auto p = leaf(flat.slice(0, 0, 100)), q = leaf(flat.slice(0, 0, 100).clone());
  const auto g = torch::randn({100});
  flat.slice(0, 100, 200).copy_(g);
  p.mutable_grad() = flat.slice(0, 100, 200);
  q.mutable_grad() = g.clone();
  SGD one({p}, 0.1), other({q}, 0.1);
  one.step();
  other.step();
  EXPECT_TRUE(torch::equal(p, q));
  EXPECT_TRUE(torch::equal(p.grad(), g));
}

TEST(SharedMemory, CopyOnWriteCopiesAreNotShared) {
  const auto w = torch::randn({100});
  expect_same_as_clones({w, at::_lazy_clone(w)});
}

TEST(SharedMemory, MemoryThatIsSharedLaterIsRejectedAtTheStep) {
  Tensors parameters = make_parameters(torch::kFloat32, {{50}, {50}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 2);
  const auto own = parameters[1].detach().clone();
  parameters[1].set_data(parameters[0].detach());
  set_gradients(parameters, 3);
  const auto before = parameters[0].detach().clone();
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "share memory");
  EXPECT_TRUE(torch::equal(parameters[0], before));
  parameters[1].set_data(own);
  EXPECT_NO_THROW(optimizer.step());
}

TEST(SharedMemory, OverlappingElementsOfOneParameterAreRejected) {
  EXPECT_HAS(error_for({leaf(torch::zeros({1}).expand({5}))}), "share memory");
  EXPECT_HAS(error_for({leaf(torch::zeros({10}).as_strided({4, 3}, {2, 1}))}), "share memory");
  EXPECT_HAS(error_for({leaf(torch::zeros({10}).unfold(0, 3, 1))}), "share memory");
}

TEST(SharedMemory, ThousandsOfViewsOfOneBufferAreChecked) {
  const auto flat = torch::randn({20000});
  Tensors parameters;
  for (std::int64_t i = 0; i < 20000; i += 2) parameters.push_back(leaf(flat.slice(0, i, i + 2)));
  EXPECT_NO_THROW(SGD(parameters, 0.1));
  parameters.push_back(leaf(flat.slice(0, 19999, 20000)));
  EXPECT_HAS(error_for(parameters), "parameter 9999 of group 0");
}

TEST(SharedMemory, AGradientThatIsTheParameterIsReadBeforeItIsWritten) {
  for (const char* rule : {"sgd", "adamw", "lamb"}) {
    const auto p = leaf(torch::randn({5000})), q = leaf(p.clone());
    auto one = Optimizer::from_spec({p}, R"({"rule": ")" + std::string(rule) + R"("})");
    auto other = Optimizer::from_spec({q}, R"({"rule": ")" + std::string(rule) + R"("})");
    for (int step = 0; step < 3; ++step) {
      p.mutable_grad() = p.detach();
      q.mutable_grad() = q.detach().clone();
      one->step();
      other->step();
    }
    EXPECT_TRUE(torch::equal(p, q)) << rule;
  }
}

TEST(SharedMemory, AGradientThatOverlapsItsParameterIsRejected) {
  const auto flat = torch::randn({101});
  const auto p = leaf(flat.slice(0, 0, 100)), w = leaf(torch::randn({10, 10}));
  SGD optimizer({p}, 0.1), square({w}, 0.1);
  p.mutable_grad() = flat.slice(0, 1, 101);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "but not element by element");
  w.mutable_grad() = w.detach().t();
  EXPECT_HAS(argument_error([&] { square.step(); }), "parameter 0 of group 0");
  p.mutable_grad() = p.detach()[3].expand({100});
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "clone()");
}

TEST(SharedMemory, AGradientInAnotherParametersMemoryIsRejectedAndBothAreNamed) {
  const auto flat = torch::randn({400});
  const auto p = leaf(flat.slice(0, 0, 100)), q = leaf(flat.slice(0, 100, 200));
  const auto before = flat.clone();
  AdamW optimizer({p, q}, AdamWOptions(0.1));
  // A gradient in the same buffer, next to both parameters, is valid.
  p.mutable_grad() = flat.slice(0, 200, 300);
  q.mutable_grad() = flat.slice(0, 300, 400);
  optimizer.step();
  const auto stepped = flat.clone();
  q.mutable_grad() = flat.slice(0, 0, 100);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::string message = argument_error([&] { optimizer.step(); });
    EXPECT_HAS(message, "the gradient of parameter 1 of group 0");
    EXPECT_HAS(message, "shares memory with parameter 0 of group 0");
    EXPECT_TRUE(torch::equal(flat, stepped));
  }
  q.mutable_grad() = q.detach();  // the step reads its memory before it writes it
  optimizer.step();
  EXPECT_FALSE(torch::equal(flat.slice(0, 0, 200), before.slice(0, 0, 200)));
}

TEST(SharedMemory, GradientsAreCheckedAfterParametersWereAdded) {
  const auto flat = torch::randn({300});
  const auto p = leaf(flat.slice(0, 0, 100)), q = leaf(flat.slice(0, 100, 200));
  AdamW optimizer({p, q}, AdamWOptions(0.1));
  set_gradients({p, q}, 1);
  optimizer.step();
  // These have no gradients, so that nothing else triggers another check of the memory.
  optimizer.add_parameters({leaf(torch::zeros({3})), leaf(flat.slice(0, 200, 300))});
  optimizer.add_param_group(OptimizerParamGroup({leaf(torch::zeros({4}))}));
  p.mutable_grad() = flat.slice(0, 200, 300);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with parameter 3");
  p.mutable_grad() = flat.slice(0, 100, 200);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with parameter 1");
}

TEST(SharedMemory, AParameterThatMovesIntoAGradientsMemoryIsRejected) {
  const auto p = leaf(torch::randn({100})), q = leaf(torch::randn({100}));
  SGD optimizer({p, q}, 0.1);
  set_gradients({p, q}, 1);
  optimizer.step();
  q.set_data(p.grad().detach());
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with parameter 1");
}

// torch frees the storage of a tensor so.
void free_storage(const torch::Tensor& tensor) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr());
  tensor.storage().set_nbytes(0);
}

TEST(SharedMemory, ANumberThatWasFreedIsRejectedByName) {
  const auto p = leaf(torch::ones({3}));
  SGD optimizer({p}, 0.5);
  set_gradients({p}, 1);
  const auto error_after_freeing = [&](const torch::Tensor& number) {
    const torch::Tensor before = p.detach().clone();
    free_storage(number);
    const std::string error = argument_error([&] { optimizer.step(); });
    EXPECT_TRUE(torch::equal(p, before));
    return error;
  };
  const auto lr = torch::ones({}), scale = torch::ones({}), found = torch::zeros({});
  optimizer.set_lr(lr);
  EXPECT_HAS(error_after_freeing(lr), "lr of group 0");
  optimizer.set_lr(torch::Tensor());
  optimizer.set_grad_scale(scale);
  EXPECT_HAS(error_after_freeing(scale), "grad_scale");
  optimizer.set_grad_scale({});
  optimizer.set_found_inf(found);
  EXPECT_HAS(error_after_freeing(found), "found_inf");
  optimizer.set_found_inf({});
  EXPECT_NO_THROW(optimizer.step());
}

}  // namespace
}  // namespace jitstep::tests
