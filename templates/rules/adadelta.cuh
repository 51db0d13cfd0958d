// Adadelta (arXiv 1212.5701), with a learning rate and coupled weight decay, as torch.optim.Adadelta. eps is inside
// both square roots.   class: Adadelta
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::adadelta {

struct Hyper {
  double lr = 1;            // >= 0
  double rho = 0.9;         // in [0, 1]
  double eps = 1e-6;        // >= 0
  double weight_decay = 0;  // >= 0
};
struct Slots {
  NonNegative v;  // torch: square_avg
  Signed acc;     // torch: acc_delta; average of squared updates; Signed, so that int4 stores its 0
};
struct Scalars {
  real lr, rho, fresh, eps, weight_decay;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.rho = static_cast<real>(h.rho);
    s.fresh = static_cast<real>(1 - h.rho);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    return s;
  }
  KHD static real decayed(const auto& e, const auto& c) {
    return formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static real update(const auto& e, const auto& c) {
    return sqrt(e.acc.prev + c.eps) / sqrt(e.v.next + c.eps) * decayed(e, c);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = decayed(e, c);
    e.v.next = fma(c.rho, e.v.prev, c.fresh * (g * g));
    const real u = update(e, c);
    e.acc.next = fma(c.rho, e.acc.prev, c.fresh * (u * u));
  }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * update(e, c); }
};

}  // namespace jitstep::rules::adadelta
