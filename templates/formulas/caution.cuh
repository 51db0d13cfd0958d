// Caution, arXiv 2411.16085, as timm has it: an update keeps the elements that agree with the gradient, and
// they are scaled up by how few of the tensor's they are.
#pragma once
#include "../core/contract.cuh"

namespace jitstep::formulas {

KHD real agreement(real update, real g) { return update * g > 0 ? real(1) : real(0); }

// What the elements that agree are multiplied by; sum: of agreement() over the tensor.
KHD real caution_scale(const Totals<1>& sum, int64 count) {
  return static_cast<real>(1 / max(sum[0] / static_cast<double>(count), 1e-3));
}

KHD real cautious(real update, real g, real scale) {
  return update * (agreement(update, g) * scale);
}

}  // namespace jitstep::formulas
