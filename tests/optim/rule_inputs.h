// Inputs of rules in addition to gradients, such as an estimate of the Hessian's diagonal.
#pragma once

#include "optim/training.h"

namespace jitstep::tests {

/// Gives every input of the optimizer's rule this value for the next step. Does nothing for a rule without inputs.
inline void set_inputs(Optimizer& optimizer, const Tensors& parameters, double value) {
  for (const jit::RuleInput& input : jit::default_catalog().rule(optimizer.rule()).inputs)
    for (const torch::Tensor& p : parameters)
      optimizer.set_input(p, input.name,
                          torch::full(p.sizes(), value, p.scalar_type()).to(p.device()));
}

}  // namespace jitstep::tests
