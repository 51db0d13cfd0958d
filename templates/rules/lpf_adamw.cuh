// LPFAdamW, as torchastic: AdamW on the gradient plus a multiple of its low-pass filtered average. Weight decay uses
// the bias-corrected step size.   class: LPFAdamW
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::lpf_adamw {

struct Hyper {
  double lr = 1e-3;                      // >= 0
  Numbers<3> betas = {0.9, 0.9, 0.999};  // in [0, 1); filter, first and second moment
  double amp_fac = 2;                    // finite
  double eps = 1e-8;                     // >= 0
  double weight_decay = 0;               // >= 0
};
struct Slots {
  Signed s;       // torch: smoothing
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real filter, fresh, amplifier, beta1, fresh1, beta2, fresh2, eps, shrink, step_size;
  real root_correction;
};

struct Rule {
  static constexpr bool centralizes_vectors = true;

  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double step_size = h.lr / (1 - power(h.betas[1], t));
    Scalars s;
    s.filter = static_cast<real>(h.betas[0]);
    s.fresh = static_cast<real>(1 - h.betas[0]);
    s.amplifier = static_cast<real>(h.amp_fac);
    s.beta1 = static_cast<real>(h.betas[1]);
    s.fresh1 = static_cast<real>(1 - h.betas[1]);
    s.beta2 = static_cast<real>(h.betas[2]);
    s.fresh2 = static_cast<real>(1 - h.betas[2]);
    s.eps = static_cast<real>(h.eps);
    s.shrink = static_cast<real>(1 - step_size * h.weight_decay);
    s.step_size = static_cast<real>(step_size);
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[2], t)));
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.s.next = fma(c.filter, e.s.prev, c.fresh * e.g);
    const real g = fma(c.amplifier, e.s.next, e.g);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real direction = e.m.next / (sqrt(e.v.next) / c.root_correction + c.eps);
    e.p = e.p * c.shrink - c.step_size * direction;
  }
};

}  // namespace jitstep::rules::lpf_adamw
