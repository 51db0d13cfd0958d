// Adamax (arXiv 1412.6980): Adam by the infinity norm, with coupled weight decay, as torch.optim.Adamax. eps is inside
// the maximum.   class: Adamax
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::adamax {

struct Hyper {
  double lr = 2e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0;          // >= 0
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_inf
};
struct Scalars {
  real beta1, fresh1, beta2, eps, weight_decay, step_size;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = formulas::decayed(c.weight_decay, e.p, e.g);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    e.v.next = maximum(c.beta2 * e.v.prev, abs(g) + c.eps);
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.step_size * (e.m.next / e.v.next);
  }
};

}  // namespace jitstep::rules::adamax
