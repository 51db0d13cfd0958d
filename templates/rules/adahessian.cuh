// AdaHessian (arXiv 2006.00719): Adam whose second moment is that of an estimate of the Hessian's diagonal, as
// pytorch_optimizer. The program gives the input `hessian`: u times the product of the Hessian and u, for random signs
// u, averaged spatially if wanted. Between estimates, the second moment keeps its value.   class: AdaHessian
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::adahessian {

struct Hyper {
  double lr = 0.1;                  // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double hessian_power = 1;         // > 0; 1: the root of the second moment
  double eps = 1e-16;               // >= 0
  double weight_decay = 0;          // >= 0
};
struct Flags {
  bool fixed_decay = false;  // decay without lr
  bool powered = false;      // lifted: hessian_power != 1
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative h;  // torch: exp_hessian_diag_sq
};
struct Inputs {
  Input hessian;  // an estimate of the diagonal of the Hessian
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, step_size, shrink, root_correction;
  double correction, power;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    s.shrink = static_cast<real>(1 - (F.fixed_decay ? 1.0 : h.lr) * h.weight_decay);
    s.correction = 1 - power(h.betas[1], t);
    s.root_correction = static_cast<real>(sqrt(s.correction));
    s.power = h.hessian_power / 2;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real d = e.hessian.value;
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.h.next = e.hessian.given ? fma(c.beta2, e.h.prev, c.fresh2 * (d * d)) : e.h.prev;
  }
  KHD static real denominator(const auto& e, const auto& c) {
    if constexpr (F.powered)
      return static_cast<real>(pow(static_cast<double>(e.h.next) / c.correction, c.power));
    else
      return sqrt(e.h.next) / c.root_correction;
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.shrink - c.step_size * (e.m.next / (denominator(e, c) + c.eps));
  }
};

}  // namespace jitstep::rules::adahessian
