// RAdam (arXiv 1908.03265): Adam that uses plain momentum until the variance of 1/sqrt(v) is finite, and then rectifies
// its step by that variance, as torch.optim.RAdam.   class: RAdam
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::radam {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0;          // >= 0
};
struct Flags {
  bool decoupled_weight_decay = false;
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, weight_decay, shrink, step_size;
  bool adaptive;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double power2 = power(h.betas[1], t), correction2 = 1 - power2;
    const double rho_inf = 2 / (1 - h.betas[1]) - 1;
    const double rho = rho_inf - 2 * static_cast<double>(t) * power2 / correction2;
    const double rectification =
        sqrt((rho - 4) * (rho - 2) * rho_inf * correction2 / ((rho_inf - 4) * (rho_inf - 2) * rho));
    Scalars s;
    s.adaptive = rho > 5;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.step_size =
        static_cast<real>(h.lr / (1 - power(h.betas[0], t)) * (s.adaptive ? rectification : 1.0));
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = F.decoupled_weight_decay ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real direction = c.adaptive ? e.m.next / (sqrt(e.v.next) + c.eps) : e.m.next;
    const real p = F.decoupled_weight_decay ? e.p * c.shrink : e.p;
    e.p = p - c.step_size * direction;
  }
};

}  // namespace jitstep::rules::radam
