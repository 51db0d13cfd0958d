// Grams (arXiv 2412.17107): the magnitude of Adam's update with the sign of the gradient, and decoupled weight decay, as
// pytorch_optimizer.   class: Grams
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::grams {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-6;                // >= 0
  double weight_decay = 0;          // >= 0
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, step_size, root_correction, shrink;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real size = abs(e.m.next) / (sqrt(e.v.next) / c.root_correction + c.eps);
    e.p = e.p * c.shrink - c.step_size * (size * sign(e.g));
  }
};

}  // namespace jitstep::rules::grams
