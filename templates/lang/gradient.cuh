// The gradient options of all rules: sign and loss scale, centralization, and clipping by the global norm, as
// torch.nn.utils.clip_grad_norm_ before the step. The norm is that of the gradients before centralization. A mean
// scales with its gradient, so clipping can come last. A rule's own option of the same name replaces a common one.
#pragma once
#include "contract.cuh"

namespace jitstep::gradient {

struct Hyper {
  double grad_scale = 1;      // > 0; divides the gradient, as in torch's fused optimizers
  double centralization = 0;  // finite; with 2 or more dims: g -= this * mean over dims 1...
  double max_grad_norm = 0;   // >= 0; torch.nn.utils.clip_grad_norm_ over all parameters; 0: off
};
// A lifted flag may be true although its number is neutral. The gradient must not change then, not even if its sum is
// NaN.
struct Flags {
  bool maximize = false;
  bool scaled = false;       // lifted: grad_scale != 1
  bool centralized = false;  // lifted: centralization != 0
  bool clipped = false;      // lifted: max_grad_norm != 0
};
struct Scalars {
  real inverse_scale, centralization;
  double max_grad_norm;
};
struct Mean {
  real shift;
};
struct Clip {
  real factor;
};
struct Reductions {
  Sum<first, 1, Mean> mean;  // if centralized
  Sum<all, 1, Clip> clip;    // if clipped
};

template <Flags F>
struct Gradient {
  static constexpr bool scaled = F.scaled;
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.inverse_scale = static_cast<real>(1 / h.grad_scale);
    s.centralization = static_cast<real>(h.centralization);
    s.max_grad_norm = h.max_grad_norm;
    return s;
  }
  KHD static real scale(real g, const auto& c) {
    const real signed_g = F.maximize ? -g : g;
    return F.scaled ? signed_g * c.inverse_scale : signed_g;
  }
  KHD static Reals<1> terms(Of<Mean>, real g, const auto&) { return {g}; }
  KHD static Reals<1> terms(Of<Clip>, real g, const auto&) { return {g * g}; }
  // centered: whether centralization applies to the tensor.
  KHD static Mean finalize(Of<Mean>, const Totals<1>& sum, int64 count, const auto& c,
                           bool centered) {
    const real mean = static_cast<real>(sum[0] / static_cast<double>(count));
    return {centered && c.centralization != 0 ? mean * c.centralization : real(0)};
  }
  KHD static Clip finalize(Of<Clip>, const Totals<1>& sum, int64, const auto& c, bool) {
    const double factor = c.max_grad_norm / (sqrt(sum[0]) + 1e-6);
    return {static_cast<real>(factor > 1 || c.max_grad_norm == 0 ? 1.0 : factor)};
  }
  KHD static real transform(real g, const auto& c) {
    const real centered = F.centralized ? g - c.mean.shift : g;
    return F.clipped ? centered * c.clip.factor : centered;
  }
};

}  // namespace jitstep::gradient
