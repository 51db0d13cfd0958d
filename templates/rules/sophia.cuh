// Sophia (arXiv 2305.14342, Algorithm 3): momentum divided by an average of estimates of the Hessian's diagonal, and
// clipped per element. The program gives the input `hessian` every few steps: Sophia-G's Gauss-Newton-Bartlett estimate
// (batch size times the squared gradient of sampled labels), or Sophia-H's (u times the product of the Hessian and
// u).   class: Sophia
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::sophia {

struct Hyper {
  double lr = 1e-4;                  // >= 0
  Numbers<2> betas = {0.965, 0.99};  // in [0, 1)
  double rho = 0.04;                 // >= 0; multiplies the Hessian: a larger one clips less
  double eps = 1e-12;                // > 0; smallest denominator
  double weight_decay = 0.1;         // >= 0
};
struct Slots {
  Signed m;  // torch: exp_avg
  Signed h;  // torch: hessian_moment
};
struct Inputs {
  Input hessian;  // an estimate of the diagonal of the Hessian
};
struct Scalars {
  real lr, beta1, fresh1, beta2, fresh2, rho, eps, shrink;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.rho = static_cast<real>(h.rho);
    s.eps = static_cast<real>(h.eps);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.h.next = e.hessian.given ? fma(c.beta2, e.h.prev, c.fresh2 * e.hessian.value) : e.h.prev;
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real ratio = e.m.next / max(c.eps, c.rho * e.h.next);  // NaN if the Hessian is
    e.p = e.p * c.shrink - c.lr * min(real(1), max(real(-1), ratio));
  }
};

}  // namespace jitstep::rules::sophia
