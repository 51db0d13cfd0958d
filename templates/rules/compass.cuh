// Compass, as torchastic: it adds a multiple of the gradient's slow average to the gradient, and divides the sum by
// the root of the sum's second moment. Weight decay uses the bias-corrected step size.   class: Compass
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::compass {

struct Hyper {
  double lr = 1e-3;                  // >= 0
  Numbers<2> betas = {0.99, 0.999};  // in [0, 1)
  double amp_fac = 5;                // finite
  double eps = 1e-8;                 // >= 0
  double weight_decay = 0;           // >= 0
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, amplifier, beta2, fresh2, eps, shrink, step_size, root_correction;
};

struct Rule {
  static constexpr bool centralizes_vectors = true;

  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double step_size = h.lr / (1 - power(h.betas[0], t));
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.amplifier = static_cast<real>(h.amp_fac);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.shrink = static_cast<real>(1 - step_size * h.weight_decay);
    s.step_size = static_cast<real>(step_size);
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    return s;
  }
  KHD static real amplified(const auto& e, const auto& c) {
    return fma(c.amplifier, e.m.next, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    const real g = amplified(e, c);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real direction = amplified(e, c) / (sqrt(e.v.next) / c.root_correction + c.eps);
    e.p = e.p * c.shrink - c.step_size * direction;
  }
};

}  // namespace jitstep::rules::compass
