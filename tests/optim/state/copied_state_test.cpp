// States that programs move between optimizers, or copy, change and assign to other parameters.
#include <sstream>

#include "optim/state/resized_copies.h"

namespace jitstep::tests {
namespace {

// ---- states that move to another optimizer and back ----

// Steps two optimizers in turn with one state, which `hand_over` moves.
template <class HandOver>
Tensors in_turn(const AdamWOptions& first, const AdamWOptions& second, torch::Dtype dtype,
                HandOver wait_for_last_step) {
  const Tensors p = make_parameters(dtype, {{70, 60}});
  AdamW a(p, first), b(p, second);
  auto* const key = p[0].unsafeGetTensorImpl();
  train(a, p, 1, 2);
  for (int step = 3; step <= 8; ++step) {
    AdamW& from = step % 2 == 1 ? a : b;
    AdamW& to = step % 2 == 1 ? b : a;
    to.state()[key] = wait_for_last_step(std::move(from.state().at(key)));
    from.state().erase(key);
    train(to, p, step, step);
  }
  return p;
}

TEST(MovedStates, UseTheOptionsAndFormatsOfTheirCurrentOptimizer) {
  const auto options = [] { return AdamWOptions(0.01); };
  using Held = std::unique_ptr<torch::optim::OptimizerParamState>;
  for (const auto& [other, dtype] : {std::pair{options().maximize(true), torch::kFloat32},
                                     std::pair{options().amsgrad(true), torch::kFloat32},
                                     std::pair{options().state("int8"), torch::kFloat32},
                                     std::pair{options().weights("master"), torch::kBFloat16}}) {
    const Tensors moved = in_turn(options(), other, dtype, [](Held held) { return held; });
    // The optimizer has not seen another state object yet.
    const Tensors fresh = in_turn(options(), other, dtype, [](Held held) -> Held {
      return std::make_unique<AdamWParamState>(std::move(static_cast<AdamWParamState&>(*held)));
    });
    expect_equal(moved, fresh);
  }
}

TEST(MovedStates, OfAnotherRuleAreRejectedEvenAtTheSameAddress) {
  const Tensors p = make_parameters();
  const std::string name = load_rule(example_file("yogi.cuh"));
  Optimizer optimizer(name, p, GenericOptions(0.1));
  train(optimizer, p, 1, 2);
  auto& state = static_cast<ParamState&>(*optimizer.state().at(p[0].unsafeGetTensorImpl()));
  state = ParamState("adamw");
  EXPECT_HAS(argument_error([&] { train(optimizer, p, 3, 3); }), "replaced by another optimizer's");
}

// ---- states that are copied, resized and assigned to another parameter ----

torch::Tensor flat(const torch::Tensor& values) { return values.flatten(); }

torch::Tensor none(const torch::Tensor& values) { return values.slice(0, 0, 0).clone(); }

// One codec of each kind: without scales, with a scale for each block, row or tensor, and with two codes in a byte.
// copied_state_long_test.cpp tests the others.
TEST(CopiedStates, AreResizedInEveryKindOfStateFormat) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4", "int4_rank1", "factored", "fp8_norm"}) {
    expect_resized(codec, torch::kFloat32, "native", Way::constructor, longer);
    expect_resized(codec, torch::kFloat32, "native", Way::clone, shorter);
  }
}

TEST(CopiedStates, AreResizedToShapesOfOtherDimensionsAndToNone) {
  for (const char* codec : {"fp32", "int8", "int4_rank1"}) {
    expect_resized(codec, torch::kFloat32, "native", Way::constructor, flat);
    expect_resized(codec, torch::kFloat32, "native", Way::constructor, none);
  }
}

// Each slot with a codec compiles two more kernels for each weight format, so only one weight format has one.
TEST(CopiedStates, AreResizedInEveryWeightFormat) {
  expect_resized("int8", torch::kBFloat16, "split16", Way::constructor, longer);
  for (const char* weights : {"stochastic", "master", "split8", "kahan"})
    expect_resized("fp32", torch::kBFloat16, weights, Way::constructor, longer);
}

TEST(CopiedStates, ShowTheValuesOfTheOriginalAndLeaveItAlone) {
  for (const char* codec : {"fp32", "int8", "factored", "int4_rank1"}) {
    const Tensors p = make_parameters(torch::kFloat32, {{40, 30}}), twin = clones(p);
    const auto options = AdamWOptions().min_quantized_size(0).state("v", codec).state("m", "int8");
    AdamW optimizer(p, options), other(twin, options);
    train(optimizer, p, 1, 2);
    train(other, twin, 1, 2);
    {
      AdamWParamState copy = state_of<AdamWParamState>(optimizer, p[0]);
      EXPECT_TRUE(copy == state_of<AdamWParamState>(optimizer, p[0])) << codec;
      copy.exp_avg(torch::ones({3})).exp_avg_sq(torch::ones({4, 5}));
      EXPECT_TRUE(torch::equal(copy.exp_avg(), torch::ones({3})));
      EXPECT_TRUE(torch::equal(copy.exp_avg_sq(), torch::ones({4, 5})));
    }
    EXPECT_TRUE(state_of<AdamWParamState>(optimizer, p[0]) ==
                state_of<AdamWParamState>(other, twin[0]))
        << codec;
    train(optimizer, p, 3, 4);
    train(other, twin, 3, 4);
    expect_equal(p, twin);
  }
}

// Resizes the parameter in place, and its state with it.
TEST(CopiedStates, NeedNoCopyIfTheParameterAlreadyHasItsNewShape) {
  for (const char* codec : {"fp32", "int8", "int4_rank1"}) {
    const Tensors p = make_parameters(torch::kFloat32, {{40, 30}}), twin = clones(p);
    const auto options = AdamWOptions().min_quantized_size(0).state(codec);
    AdamW optimizer(p, options);
    train(optimizer, p, 1, 2);
    auto& state = state_of<AdamWParamState>(optimizer, p[0]);
    const torch::Tensor m = longer(state.exp_avg()), v = longer(state.exp_avg_sq());
    p[0].set_data(longer(p[0].detach()));
    twin[0].set_data(p[0].detach().clone());
    state.exp_avg(m.clone()).exp_avg_sq(v.clone());
    AdamW other(twin, options);
    auto made = std::make_unique<AdamWParamState>();
    made->step(2).exp_avg(m).exp_avg_sq(v);
    other.state()[twin[0].unsafeGetTensorImpl()] = std::move(made);
    train(optimizer, p, 3, 4);
    train(other, twin, 3, 4);
    expect_equal(p, twin);
  }
}

// The means of rows and columns are computed from the new values.
TEST(CopiedStates, RecomputeAuxStateFromValuesThatAreSet) {
  for (const char* codec : {"factored", "int4_rank1"}) {
    const Tensors p = make_parameters(torch::kFloat32, {{40, 30}});
    AdamW optimizer(p, AdamWOptions().min_quantized_size(0).state("v", codec));
    train(optimizer, p, 1, 2);
    auto copy = copy_of(state_of<AdamWParamState>(optimizer, p[0]), Way::constructor);
    copy->exp_avg_sq(torch::full({40, 30}, 16.0));
    optimizer.state()[p[0].unsafeGetTensorImpl()] = std::move(copy);
    p[0].mutable_grad() = torch::zeros({40, 30});
    optimizer.step();
    EXPECT_TRUE(torch::allclose(state_of<AdamWParamState>(optimizer, p[0]).exp_avg_sq(),
                                torch::full({40, 30}, 0.999 * 16.0), 1e-3))
        << codec;
  }
}

TEST(CopiedStates, AreRejectedByTheOptimizerIfTheyDoNotFit) {
  for (const char* codec : {"fp32", "int8", "int4_rank1"}) {
    const Tensors p = make_parameters(torch::kFloat32, {{40, 30}, {7}});
    AdamW optimizer(p, AdamWOptions().min_quantized_size(0).state(codec));
    train(optimizer, p, 1, 2);
    auto copy = copy_of(state_of<AdamWParamState>(optimizer, p[0]), Way::constructor);
    copy->exp_avg(torch::zeros({51, 30}));  // the test does not set the other slot
    const Tensors before = clones(p);
    for (const std::int64_t rows : {51, 40, 13}) {
      p[0].set_data(torch::zeros({rows, 30}));
      optimizer.state()[p[0].unsafeGetTensorImpl()] = copy->clone();
      set_gradients(p, 3);
      const std::string error = argument_error([&] { optimizer.step(); });
      EXPECT_HAS(error, c10::str("for a parameter of shape [", rows, ", 30]"));
      EXPECT_HAS(error, "parameter 0 of group 0");
      EXPECT_TRUE(torch::equal(p[1], before[1]));
    }
  }
}

TEST(CopiedStates, AreResizedWithTheirRowAndColumnState) {
  const Tensors old = make_parameters(torch::kFloat32, {{40, 30}});
  Adafactor optimizer(old, AdafactorOptions());
  train(optimizer, old, 1, 3);
  const auto& original =
      static_cast<AdafactorParamState&>(*optimizer.state().at(old[0].unsafeGetTensorImpl()));
  auto copy = std::make_unique<AdafactorParamState>(original);
  const torch::Tensor p = torch::zeros({51, 30}).requires_grad_();
  optimizer.param_groups()[0].params()[0] = p;
  auto& held = optimizer.state()[p.unsafeGetTensorImpl()];
  held = copy->clone();
  set_gradients({p}, 4);
  const std::string error = argument_error([&] { optimizer.step(); });
  EXPECT_HAS(error, "40 values of the auxiliary state \"row\"");
  EXPECT_HAS(error, "needs 51");
  const torch::Tensor rows = torch::cat({copy->aux_state("row"), torch::full({11}, 0.5)});
  copy->set_aux_state("row", rows);
  held = std::move(copy);
  EXPECT_NO_THROW(optimizer.step());
  const auto& now = static_cast<AdafactorParamState&>(*held);
  EXPECT_EQ(now.step(), 4);
  EXPECT_EQ(now.aux_state("row").sizes(), torch::IntArrayRef({51}));
  EXPECT_TRUE(torch::equal(original.aux_state("row"), rows.slice(0, 0, 40)));
}

TEST(CopiedStates, AreSavedInTheirFormatsBeforeAStepBindsThem) {
  const Tensors p = make_parameters(torch::kFloat32, {{70, 60}}), twin = clones(p);
  const auto options = AdamWOptions().state("int8");
  AdamW optimizer(p, options), other(twin, options), loaded(p, options);
  train(optimizer, p, 1, 2);
  train(other, twin, 1, 2);
  auto& held = optimizer.state()[p[0].unsafeGetTensorImpl()];
  held = held->clone();
  copy_through_archive(optimizer, loaded);
  train(loaded, p, 3, 4);
  train(other, twin, 3, 4);
  expect_equal(p, twin);
}

// The sizes and the residual belong to the new parameter.
TEST(CopiedStates, AreSavedAfterAResizeBeforeAStepBindsThem) {
  for (const auto& [codec, weights] :
       {std::pair{"fp32", "native"}, {"int8", "split16"}, {"factored", "kahan"}}) {
    SCOPED_TRACE(codec);
    const Tensors old = make_parameters(torch::kBFloat16, {{40, 30}});
    const auto options =
        AdamWOptions(0.01).min_quantized_size(0).state("v", codec).weights(weights);
    AdamW optimizer(old, options);
    train(optimizer, old, 1, 3);
    auto copy = copy_of(state_of<AdamWParamState>(optimizer, old[0]), Way::constructor);
    copy->exp_avg(longer(copy->exp_avg())).exp_avg_sq(longer(copy->exp_avg_sq()));
    const Tensors p = {longer(old[0].detach()).requires_grad_()}, q = clones(p);
    AdamW resized(p, options), loaded(q, options);
    resized.state()[p[0].unsafeGetTensorImpl()] = std::move(copy);
    copy_through_archive(resized, loaded);
    train(resized, p, 4, 5);
    train(loaded, q, 4, 5);
    expect_equal(q, p);
    EXPECT_TRUE(state_of<AdamWParamState>(loaded, q[0]) ==
                state_of<AdamWParamState>(resized, p[0]));
  }
}

TEST(CopiedStates, WithoutSlotsAreSavedUnderAParameterOfAnotherShape) {
  const Tensors old = make_parameters(torch::kBFloat16, {{40, 30}});
  for (const char* weights : {"native", "split16"}) {
    SGD optimizer(old, SGDOptions(0.01).weights(weights));
    train(optimizer, old, 1, 3);
    const Tensors p = {longer(old[0].detach()).requires_grad_()}, q = clones(p);
    SGD resized(p, SGDOptions(0.01).weights(weights)), loaded(q, SGDOptions(0.01).weights(weights));
    resized.state()[p[0].unsafeGetTensorImpl()] =
        optimizer.state().at(old[0].unsafeGetTensorImpl())->clone();
    copy_through_archive(resized, loaded);
    train(resized, p, 4, 5);
    train(loaded, q, 4, 5);
    expect_equal(q, p);
    expect_equal(loaded.fp32_weights(), resized.fp32_weights());
  }
}

TEST(CopiedStates, AreSavedWithTheirRowStateAfterAResize) {
  const Tensors old = make_parameters(torch::kFloat32, {{40, 30}});
  Adafactor optimizer(old, AdafactorOptions());
  train(optimizer, old, 1, 3);
  auto copy = std::make_unique<AdafactorParamState>(
      static_cast<AdafactorParamState&>(*optimizer.state().at(old[0].unsafeGetTensorImpl())));
  copy->set_aux_state("row", torch::cat({copy->aux_state("row"), torch::full({11}, 0.5)}));
  const Tensors p = {longer(old[0].detach()).requires_grad_()}, q = clones(p);
  Adafactor resized(p, AdafactorOptions()), loaded(q, AdafactorOptions());
  resized.state()[p[0].unsafeGetTensorImpl()] = std::move(copy);
  copy_through_archive(resized, loaded);
  train(resized, p, 4, 5);
  train(loaded, q, 4, 5);
  expect_equal(q, p);
}

TEST(CopiedStates, StayUsableAfterAFailedStep) {
  const Tensors p = make_parameters(torch::kFloat32, {{70, 60}, {9}}), twin = clones(p);
  const auto options = AdamWOptions().state("int8");
  AdamW optimizer(p, options), other(twin, options);
  train(optimizer, p, 1, 2);
  train(other, twin, 1, 2);
  state_of<AdamWParamState>(optimizer, p[0])
      .exp_avg();  // from here on, the program may hold the tensor
  auto wrong = std::make_unique<AdamWParamState>();
  wrong->step(2).exp_avg(torch::zeros({3})).exp_avg_sq(torch::zeros({3}));
  optimizer.state()[p[1].unsafeGetTensorImpl()] = std::move(wrong);
  static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).amsgrad(true);
  EXPECT_HAS(argument_error([&] { train(optimizer, p, 3, 3); }), "shape");
  EXPECT_TRUE(state_of<AdamWParamState>(optimizer, p[0]) ==
              state_of<AdamWParamState>(other, twin[0]));
  EXPECT_HAS(argument_error(
                 [&] { state_of<AdamWParamState>(optimizer, p[0]).exp_avg(torch::zeros({3})); }),
             "shape")
      << "the state must be bound as before";
}

}  // namespace
}  // namespace jitstep::tests
