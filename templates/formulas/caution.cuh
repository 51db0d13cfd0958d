// Caution (arXiv 2411.16085), as timm: it drops the elements of an update that disagree with the gradient in sign. It
// scales the others up by the inverse of their share of the tensor.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::formulas {

KHD real agreement(real update, real g) { return update * g > 0 ? real(1) : real(0); }

// The factor for elements that agree. sum: agreement() summed over the tensor.
KHD real caution_scale(const Totals<1>& sum, int64 count) {
  return static_cast<real>(1 / max(sum[0] / static_cast<double>(count), 1e-3));
}

KHD real cautious(real update, real g, real scale) {
  return update * (agreement(update, g) * scale);
}

}  // namespace jitstep::formulas
