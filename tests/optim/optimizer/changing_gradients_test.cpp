// Steps whose set of gradients changes, as in a mixture of experts, and changes between two steps that look alike. The
// optimizer keeps what it knows about inactive parameters, and does not check unchanged tensors again.
#include <ATen/ops/_lazy_clone.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {{5000}, {70, 60}, {3}, {300}, {4100}, {0}};

// Some parameters get gradients. The set differs from that of the step before.
void set_some_gradients(const Tensors& parameters, int step) {
  set_gradients(parameters, step);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if ((i + static_cast<std::size_t>(step)) % 3 == 0 || (i == 1 && step % 2 == 0))
      parameters[i].mutable_grad() = torch::Tensor();
}

// A step of a new optimizer, which knows the earlier steps only from a checkpoint.
template <class Optimizer, class Options>
Tensors stepped_by_a_new_optimizer(const Optimizer& from, const Tensors& parameters,
                                   const Options& options) {
  const Tensors copies = clones(parameters);
  Optimizer fresh(copies, options);
  copy_through_archive(from, fresh);
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i].mutable_grad() = parameters[i].grad();
  fresh.step();
  return copies;
}

template <class Optimizer, class Options>
void expect_steps_of_a_new_optimizer(const Options& options, torch::Dtype dtype = torch::kFloat32) {
  const Tensors parameters = make_parameters(dtype, kShapes);
  Optimizer optimizer(parameters, options);
  for (int step = 1; step <= 9; ++step) {
    SCOPED_TRACE(step);
    set_some_gradients(parameters, step);
    const Tensors expected = stepped_by_a_new_optimizer(optimizer, parameters, options);
    optimizer.step();
    expect_equal(parameters, expected);
  }
}

TEST(ChangingGradients, GiveTheBitsOfANewOptimizer) {
  expect_steps_of_a_new_optimizer<AdamW>(AdamWOptions(0.1));
  expect_steps_of_a_new_optimizer<AdamW>(AdamWOptions(0.1).state("int8"));
  expect_steps_of_a_new_optimizer<AdamW>(AdamWOptions(0.1).weights("stochastic"), torch::kBFloat16);
}

TEST(ChangingGradients, ContributeToGlobalSumsOnlyWhereTheyExist) {
  expect_steps_of_a_new_optimizer<AdamW>(AdamWOptions(0.1).max_grad_norm(0.5));
  expect_steps_of_a_new_optimizer<LAMB>(LAMBOptions(0.1).max_grad_norm(0.5).state("int4"));
  expect_steps_of_a_new_optimizer<Prodigy>(ProdigyOptions(1.0));
}

TEST(ChangingGradients, AreTheOnlyOnesThatAHostTransformGets) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{30, 20}, {20, 30}, {30, 20}});
  Muon optimizer(parameters, MuonOptions(0.1));
  for (int step = 1; step <= 6; ++step) {
    set_gradients(parameters, step);
    parameters[static_cast<std::size_t>(step % 3)].mutable_grad() = torch::Tensor();
    const Tensors expected = stepped_by_a_new_optimizer(optimizer, parameters, MuonOptions(0.1));
    optimizer.step();
    expect_close(parameters, expected, 1e-5, 1e-6);
  }
}

TEST(ChangingGradients, StepTheNewStorageOfAParameterThatMovedWhileInactive) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{300}, {500}}),
                alone = clones(parameters);
  AdamW optimizer(parameters, AdamWOptions(0.1)), other(alone, AdamWOptions(0.1));
  train(optimizer, parameters, 1, 2);
  train(other, alone, 1, 2);
  for (const Tensors* all : {&parameters, &alone}) {
    set_gradients(*all, 3);
    (*all)[0].mutable_grad() = torch::Tensor();
  }
  optimizer.step();
  other.step();
  const auto old_memory = parameters[0].detach();
  const auto before = old_memory.clone();
  parameters[0].set_data(before.clone());
  train(optimizer, parameters, 4, 5);
  train(other, alone, 4, 5);
  expect_equal(parameters, alone);
  EXPECT_TRUE(torch::equal(old_memory, before)) << "the step wrote to the old storage";
}

// The elements after those of a view.
torch::Tensor next_view(const torch::Tensor& t) {
  return t.detach().as_strided(t.sizes(), t.strides(), t.storage_offset() + t.numel());
}

// Every change to the handle of a gradient or parameter between two steps. The next step must notice each.
TEST(UnchangedSteps, EndWithAnyChangeToAHandle) {
  const std::vector<std::function<void(torch::Tensor&)>> changes = {
      [](auto& p) { p.mutable_grad().set_data(p.grad().clone()); },
      [](auto& p) { p.mutable_grad().set_data(p.grad().to(torch::kBFloat16)); },
      [](auto& p) { p.mutable_grad().set_data(p.grad().t().contiguous().t()); },
      [](auto& p) { p.mutable_grad().set_data(next_view(p.grad())); },
      [](auto& p) { p.mutable_grad() = p.grad().clone(); },
      [](auto& p) { p.mutable_grad() = torch::_efficientzerotensor(p.sizes()); },
      [](auto& p) { p.mutable_grad() = torch::_neg_view(p.grad()); },
      [](auto& p) { p.set_data(p.detach().clone()); },
      [](auto& p) { p.set_data(next_view(p)); },
      [](auto& p) { p.set_data(p.detach().t().contiguous().t()); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    const Tensors parameters = make_parameters(torch::kFloat32, {{40, 30}, {30}});
    auto p = parameters[0];
    p.set_data(torch::stack({p.detach(), 2 * p.detach()})[0]);
    AdamW optimizer(parameters, AdamWOptions(0.1));
    set_gradients(parameters, 1);
    p.mutable_grad() = torch::stack({p.grad(), 2 * p.grad()})[0];
    for (int step = 1; step <= 3; ++step) optimizer.step();
    changes[i](p);
    const Tensors expected = stepped_by_a_new_optimizer(optimizer, parameters, AdamWOptions(0.1));
    optimizer.step();
    expect_equal(parameters, expected);
  }
}

// Every change to the table of states or to a state. The next step must notice each.
TEST(UnchangedSteps, EndWithAnyChangeToAState) {
  using States = std::remove_reference_t<decltype(std::declval<AdamW&>().state())>;
  const std::vector<std::function<void(States&, void*, void*)>> changes = {
      [](auto& states, void* a, void*) {
        states.at(a) = static_cast<AdamWParamState&>(*states.at(a)).clone();
      },
      [](auto& states, void* a, void*) {
        auto& state = static_cast<AdamWParamState&>(*states.at(a));
        state = AdamWParamState(state);
      },
      [](auto& states, void* a, void*) { static_cast<AdamWParamState&>(*states.at(a)).step(9); },
      [](auto& states, void* a, void*) {
        static_cast<AdamWParamState&>(*states.at(a)).exp_avg(torch::ones({40, 30}));
      },
      [](auto& states, void* a, void* b) { std::swap(states.at(a), states.at(b)); },
      [](auto& states, void* a, void*) { states.erase(a); },
      [](auto& states, void*, void*) {
        States others;
        for (auto& [key, state] : states) others[key] = std::move(state);
        states = std::move(others);
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    const Tensors parameters = make_parameters(torch::kFloat32, {{40, 30}, {40, 30}, {30}});
    AdamW optimizer(parameters, AdamWOptions(0.1));
    set_gradients(parameters, 1);
    for (int step = 1; step <= 3; ++step) optimizer.step();
    changes[i](optimizer.state(), parameters[0].unsafeGetTensorImpl(),
               parameters[1].unsafeGetTensorImpl());
    const Tensors expected = stepped_by_a_new_optimizer(optimizer, parameters, AdamWOptions(0.1));
    optimizer.step();
    expect_equal(parameters, expected);
  }
}

TEST(UnchangedSteps, EndWithAGradientThatReturnsToItsOldMemory) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{300}});
  AdamW optimizer(parameters, AdamWOptions(0.1));
  set_gradients(parameters, 1);
  const torch::Tensor first = parameters[0].grad(), second = -2 * first;
  for (const torch::Tensor& gradient : {first, first, second, second, first}) {
    parameters[0].mutable_grad() = gradient;
    const Tensors expected = stepped_by_a_new_optimizer(optimizer, parameters, AdamWOptions(0.1));
    optimizer.step();
    expect_equal(parameters, expected);
  }
}

TEST(UnchangedSteps, BindAStateAgainThatTheProgramAssigned) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{50}});
  AdamW optimizer(parameters);
  set_gradients(parameters, 1);
  for (int step = 1; step <= 3; ++step) optimizer.step();
  auto& state =
      static_cast<AdamWParamState&>(*optimizer.state().at(parameters[0].unsafeGetTensorImpl()));
  state = AdamWParamState(state);
  optimizer.step();
  EXPECT_THROW(state.exp_avg(torch::ones({7})), c10::Error) << "only an unbound state accepts it";
}

// Erasing moves other states inside of the table, if their addresses are irregular.
TEST(UnchangedSteps, CreateNoStateIfTheyFailAfterTheProgramErasedSome) {
  const Tensors all =
      make_parameters(torch::kFloat32, std::vector<std::vector<std::int64_t>>(3600, {5}));
  Tensors parameters;
  for (std::size_t i = 0; i < 60; ++i) parameters.push_back(all[i * i]);
  AdamW optimizer(parameters);
  set_gradients(parameters, 1);
  for (int step = 1; step <= 3; ++step) optimizer.step();
  for (std::size_t i = 0; i < parameters.size(); i += 2)
    optimizer.state().erase(parameters[i].unsafeGetTensorImpl());
  optimizer.zero_grad_in_step();
  parameters[0].mutable_grad() = parameters[1].grad();
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with");
  EXPECT_EQ(optimizer.state().size(), 30u);
}

TEST(UnchangedSteps, EndWithAParameterThatTheProgramAddsToAGroup) {
  Tensors parameters = make_parameters(torch::kFloat32, {{50}, {60}});
  AdamW optimizer({parameters[0]}, AdamWOptions(0.1));
  set_gradients(parameters, 1);
  for (int step = 1; step <= 3; ++step) optimizer.step();
  const torch::Tensor before = parameters[1].detach().clone();
  optimizer.param_groups()[0].params().push_back(parameters[1]);
  optimizer.step();
  EXPECT_FALSE(torch::equal(parameters[1], before));
  optimizer.param_groups()[0].params()[0] = parameters[1];
  EXPECT_NO_THROW(optimizer.param_groups()[0].params().pop_back());
  const torch::Tensor first = parameters[0].detach().clone();
  optimizer.step();
  EXPECT_TRUE(torch::equal(parameters[0], first)) << "it is no parameter any more";
}

TEST(UnchangedSteps, StillRejectAGradientThatNoLongerFitsTheParameter) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{50}, {50}});
  AdamW optimizer(parameters);
  set_gradients(parameters, 1);
  for (int step = 1; step <= 3; ++step) optimizer.step();
  auto p = parameters[0];
  p.set_data(p.detach().slice(0, 0, 40).clone());
  p.mutable_grad() = p.grad().clone();
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "has the shape [50]");
}

TEST(UnchangedSteps, DoNotChangeALazyCopyOfTheParameter) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{300}});
  AdamW optimizer(parameters, AdamWOptions(0.1));
  set_gradients(parameters, 1);
  for (int step = 1; step <= 3; ++step) optimizer.step();
  const auto values = parameters[0].detach().clone();
  const auto copy = at::_lazy_clone(parameters[0].detach());
  optimizer.step();
  EXPECT_TRUE(torch::equal(copy, values));
  EXPECT_FALSE(torch::equal(parameters[0], values));
}

TEST(UnchangedSteps, StillRejectAGradientThatMovedIntoAnotherParameter) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{50}, {50}});
  AdamW optimizer(parameters);
  set_gradients(parameters, 1);
  for (int step = 1; step <= 3; ++step) optimizer.step();
  parameters[0].mutable_grad().set_data(parameters[1].detach());
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with");
}

// The step would read elements of the gradient that it has already written.
TEST(UnchangedSteps, RejectAGradientThatIsAShiftedViewOfItsParameter) {
  const torch::Tensor base = torch::ones({51});
  const torch::Tensor p = base.slice(0, 1, 51).requires_grad_();
  SGD optimizer({p}, SGDOptions(0.5));
  p.mutable_grad() = base.slice(0, 0, 50);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with");
  p.mutable_grad() = p.detach();
  optimizer.step();
  EXPECT_TRUE(torch::equal(p, torch::full({50}, 0.5)));
}

TEST(UnchangedSteps, UseTheGradientsDtypeAfterEvaluation) {
  const Tensors parameters = make_parameters(torch::kBFloat16, {{50}}), alone = clones(parameters);
  ScheduleFreeAdamW optimizer(parameters, ScheduleFreeAdamWOptions(0.1));
  ScheduleFreeAdamW other(alone, ScheduleFreeAdamWOptions(0.1));
  for (int step = 1; step <= 4; ++step) {
    for (const Tensors* all : {&parameters, &alone}) {
      set_gradients(*all, step);
      (*all)[0].mutable_grad() = (*all)[0].grad().to(torch::kFloat32);
    }
    if (step == 3) {
      parameters[0].set_data(parameters[0].detach().clone());
      optimizer.eval();
      optimizer.train();
      other.eval();
      other.train();
    }
    optimizer.step();
    other.step();
  }
  expect_equal(parameters, alone);
}

}  // namespace
}  // namespace jitstep::tests
