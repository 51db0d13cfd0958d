// NAdam (Dozat, ICLR 2016 workshop): Adam with Nesterov momentum, as torch.optim.NAdam. beta1 warms up by
// `momentum_decay`.   class: NAdam
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::nadam {

struct Hyper {
  double lr = 2e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0;          // >= 0
  double momentum_decay = 4e-3;     // >= 0
};
struct Flags {
  bool decoupled_weight_decay = false;
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct AuxState {
  Entry<tensor, double> mu_product;  // initial: 1
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, weight_decay, shrink, root_correction;
  real gradient_size, momentum_size;
};

template <Flags F>
struct Rule {
  // beta1 of step t.
  KHD static double mu(const Hyper& h, int64 t) {
    return h.betas[0] * (1 - 0.5 * pow(0.96, static_cast<double>(t) * h.momentum_decay));
  }
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    const double now = mu(h, t), then = mu(h, t + 1);
    m.mu_product.next = m.mu_product.prev * now;
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    s.gradient_size = static_cast<real>(h.lr * (1 - now) / (1 - m.mu_product.next));
    s.momentum_size = static_cast<real>(h.lr * then / (1 - m.mu_product.next * then));
    return s;
  }
  KHD static real decayed(const auto& e, const auto& c) {
    return F.decoupled_weight_decay ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = decayed(e, c);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real ahead = fma(c.gradient_size, decayed(e, c), c.momentum_size * e.m.next);
    const real p = F.decoupled_weight_decay ? e.p * c.shrink : e.p;
    e.p = p - ahead / (sqrt(e.v.next) / c.root_correction + c.eps);
  }
};

}  // namespace jitstep::rules::nadam
