// What tests of single codecs look at: a second moment that is the square of the last gradient.
#pragma once

#include <string>

#include "jitstep/param_state.h"
#include "optim/training.h"

namespace jitstep::tests {

struct KeptSquares {
  torch::Tensor p;
  AdamW optimizer;

  KeptSquares(torch::Tensor parameter, const std::string& codec)
      : p(parameter.requires_grad_()),
        optimizer({p},
                  AdamWOptions(1e-3).betas({0.9, 0}).weight_decay(0).min_quantized_size(0).state(
                      "v", codec)) {}

  AdamWParamState& state() {
    return static_cast<AdamWParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
  }
  // What is kept after a step with this gradient.
  torch::Tensor kept(const torch::Tensor& gradient) {
    p.mutable_grad() = gradient;
    optimizer.step();
    return state().exp_avg_sq();
  }
};

// That values which are set leave what a step that makes them leaves, a field of the codec's memory included.
inline void expect_made_of_values_by_the_same_sums(const std::string& codec,
                                                   const std::string& memory) {
  const torch::Tensor exact = torch::rand({70, 60}) * torch::logspace(-3, 3, 60);
  KeptSquares stepped(torch::zeros({70, 60}), codec), set(torch::zeros({70, 60}), codec);
  const torch::Tensor by_a_step = stepped.kept(exact.sqrt());
  for (int steps : {1, 2}) {  // memory lies in another half after each
    set.kept(torch::ones({70, 60}));
    set.state().exp_avg_sq(exact.sqrt().square());
    EXPECT_TRUE(torch::equal(set.state().exp_avg_sq(), by_a_step)) << steps;
    EXPECT_TRUE(torch::equal(set.state().aux_state(memory), stepped.state().aux_state(memory)));
  }
}

}  // namespace jitstep::tests
