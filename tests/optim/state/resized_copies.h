// States of AdamW that programs copy, resize and assign to another parameter.
#pragma once

#include "jitstep/param_state.h"
#include "optim/training.h"

namespace jitstep::tests {

enum class Way { constructor, clone };

inline std::unique_ptr<AdamWParamState> copy_of(const AdamWParamState& state, Way way) {
  if (way == Way::constructor) return std::make_unique<AdamWParamState>(state);
  return std::unique_ptr<AdamWParamState>(static_cast<AdamWParamState*>(state.clone().release()));
}

inline AdamWOptions options_of(const std::string& codec, const std::string& weights) {
  return AdamWOptions(0.01).amsgrad(true).min_quantized_size(0).state(codec).weights(weights);
}

// Programs that split and prune what they fit do this: parameter, state and gradient get other rows.
template <class Rows>
void expect_resized(const std::string& codec, torch::Dtype dtype, const std::string& weights,
                    Way way, Rows rows) {
  SCOPED_TRACE(codec + " " + weights);
  const Tensors old = make_parameters(dtype, {{40, 30}, {7}});
  AdamW optimizer(old, options_of(codec, weights));
  train(optimizer, old, 1, 3);
  const auto copy = copy_of(state_of<AdamWParamState>(optimizer, old[0]), way);
  const Tensors values = {rows(copy->exp_avg()), rows(copy->exp_avg_sq()),
                          rows(copy->max_exp_avg_sq())};
  copy->exp_avg(values[0]).exp_avg_sq(values[1]).max_exp_avg_sq(values[2]);
  Tensors p = {rows(old[0].detach()).clone().requires_grad_()}, twin = clones(p);
  optimizer.state().erase(old[0].unsafeGetTensorImpl());
  optimizer.param_groups()[0].params()[0] = p[0];
  optimizer.state()[p[0].unsafeGetTensorImpl()] = copy->clone();

  AdamW other(twin, options_of(codec, weights));
  auto made = std::make_unique<AdamWParamState>();
  made->step(3);
  made->exp_avg(values[0].clone()).exp_avg_sq(values[1].clone()).max_exp_avg_sq(values[2].clone());
  other.state()[twin[0].unsafeGetTensorImpl()] = std::move(made);
  train(optimizer, {p[0], old[1]}, 4, 6);
  train(other, twin, 4, 6);
  expect_equal(p, twin);
  EXPECT_EQ(state_of<AdamWParamState>(optimizer, p[0]).step(), 6);
  EXPECT_TRUE(state_of<AdamWParamState>(optimizer, p[0]) ==
              state_of<AdamWParamState>(other, twin[0]));
}

inline torch::Tensor longer(const torch::Tensor& values) {
  return torch::cat({values, torch::full({11, 30}, 0.25, values.options().requires_grad(false))});
}

inline torch::Tensor shorter(const torch::Tensor& values) {
  return values.index({torch::arange(1, 40, 3)});
}

}  // namespace jitstep::tests
