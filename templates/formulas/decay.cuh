// Weight decay: coupled with the gradient, and how decoupled decay depends on the learning rate.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::formulas {

// The rate that multiplies weight decay: lr, or corrected (arXiv 2506.02285, as timm) lr^2 / initial_lr.
KHD double decay_rate(bool corrected, double lr, Nullable initial_lr) {
  const bool changed = initial_lr.has_value() && initial_lr.value != 0;
  return corrected && changed ? lr * lr / initial_lr.value : lr;
}

// The gradient or update g with coupled decay of the parameter p. Without decay it is g, also if p is infinite, as in
// torch, which then leaves the term out.
KHD real decayed(real weight_decay, real p, real g) {
  return fma(weight_decay, chosen(weight_decay != 0, p, real(0)), g);
}

}  // namespace jitstep::formulas
