// Steps in c10::InferenceMode, and outside of it afterwards.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

void step_in_inference_mode(Optimizer& optimizer) {
  const c10::InferenceMode inference;
  optimizer.step();
}

TEST(InferenceMode, StateFromItContinuesOutside) {
  for (const char* rule : {"adamw", "shampoo", "soap", "prodigy", "muon"}) {
    SCOPED_TRACE(rule);
    Tensors parameters = make_parameters(torch::kFloat32, {{6, 5}, {4, 4}}),
            others = clones(parameters);
    Optimizer inside(rule, parameters), outside(rule, others);
    set_gradients(parameters, 1);
    step_in_inference_mode(inside);
    train(inside, parameters, 2, 3);
    train(outside, others, 1, 3);
    expect_equal(parameters, others);
  }
}

TEST(InferenceMode, SharedStateFromItCanBeSet) {
  Tensors parameters = make_parameters();
  Prodigy optimizer(parameters);
  set_gradients(parameters, 1);
  step_in_inference_mode(optimizer);
  optimizer.set_aux_state("d", 0.5);
  EXPECT_EQ(optimizer.aux_state("d"), 0.5);
  Prodigy other(parameters);
  {
    const c10::InferenceMode inference;
    other.set_aux_state("d", 0.25);
  }
  other.set_aux_state("d", 0.5);
  EXPECT_EQ(other.aux_state("d"), 0.5);
}

TEST(InferenceMode, CountersOnTheDeviceFromItContinueOutside) {
  for (const bool capturable : {false, true}) {
    const auto p = leaf(torch::ones({3})), empty = leaf(torch::zeros({0}));
    AdamW optimizer({p, empty});
    optimizer.capturable(capturable);
    optimizer.set_found_inf(torch::ones({}));
    set_gradients({p, empty}, 1);
    step_in_inference_mode(optimizer);
    optimizer.step();
    for (const auto& one : {p, empty}) EXPECT_EQ(state_of(optimizer, one).step(), 0);
  }
}

TEST(InferenceMode, AScaleFromItIsUpdatedOutside) {
  const auto p = leaf(torch::ones({3}));
  SGD optimizer({p}, 0.5);
  GradScaler scaler;
  {
    const c10::InferenceMode inference;
    scaler.scale(torch::ones({}));
  }
  scaler.scale(p.sum()).backward();
  scaler.step(optimizer);
  EXPECT_NO_THROW(scaler.update());
  EXPECT_TRUE(torch::equal(p, torch::full({3}, 0.5)));
}

// torch refuses writes to them outside of inference mode.
TEST(InferenceMode, TensorsOfTheProgramFromItAreWritten) {
  const c10::InferenceMode inference;
  const auto p = torch::ones({4, 4}, torch::kBFloat16);
  p.mutable_grad() = torch::ones_like(p)._neg_view();
  AdamW optimizer({p}, AdamWOptions().weights("split16"));
  optimizer.zero_grad_in_step();
  optimizer.step();
  EXPECT_FALSE(p.grad().any().item<bool>());
  static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).weights("native");
  p.mutable_grad() = torch::ones_like(p);
  EXPECT_NO_THROW(optimizer.step()) << "it rounds the parameter again";
  p.mutable_grad() = torch::ones_like(p);
  GradScaler scaler;
  scaler.scale(torch::ones({}));
  EXPECT_NO_THROW(scaler.unscale_(optimizer));
}

}  // namespace
}  // namespace jitstep::tests
