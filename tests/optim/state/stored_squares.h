// A helper for tests of single codecs: a second moment that is the square of the last gradient.
#pragma once

#include <string>

#include "jitstep/param_state.h"
#include "optim/training.h"

namespace jitstep::tests {

struct StoredSquares {
  torch::Tensor p;
  AdamW optimizer;

  StoredSquares(torch::Tensor parameter, const std::string& codec)
      : p(parameter.requires_grad_()),
        optimizer({p},
                  AdamWOptions(1e-3).betas({0.9, 0}).weight_decay(0).min_quantized_size(0).state(
                      "v", codec)) {}

  AdamWParamState& state() {
    return static_cast<AdamWParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
  }
  // The stored second moment after a step with this gradient.
  torch::Tensor stored_after(const torch::Tensor& gradient) {
    p.mutable_grad() = gradient;
    optimizer.step();
    return state().exp_avg_sq();
  }
};

// Checks that setting values stores the same state as a step that computes them, and the same auxiliary field `field`.
inline void expect_made_of_values_by_the_same_sums(const std::string& codec,
                                                   const std::string& field) {
  const torch::Tensor exact = torch::rand({70, 60}) * torch::logspace(-3, 3, 60);
  StoredSquares stepped(torch::zeros({70, 60}), codec), set(torch::zeros({70, 60}), codec);
  const torch::Tensor by_a_step = stepped.stored_after(exact.sqrt());
  for (int steps : {1, 2}) {  // each step swaps the two buffers of auxiliary state
    set.stored_after(torch::ones({70, 60}));
    set.state().exp_avg_sq(exact.sqrt().square());
    EXPECT_TRUE(torch::equal(set.state().exp_avg_sq(), by_a_step)) << steps;
    EXPECT_TRUE(torch::equal(set.state().aux_state(field), stepped.state().aux_state(field)));
  }
}

}  // namespace jitstep::tests
