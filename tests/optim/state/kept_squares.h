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

}  // namespace jitstep::tests
