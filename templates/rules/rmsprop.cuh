// RMSprop (Hinton, Coursera lecture 6e, 2012) with momentum and centering, as torch.optim.RMSprop. With
// `bias_correction`, `decoupled_weight_decay` and centralization, which includes vectors, it is torchastic's
// RMSProp.   class: RMSprop
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::rmsprop {

struct Hyper {
  double lr = 1e-2;         // >= 0
  double alpha = 0.99;      // >= 0
  double eps = 1e-8;        // >= 0
  double weight_decay = 0;  // >= 0
  double momentum = 0;      // >= 0
};
struct Flags {
  bool centered = false;
  bool bias_correction = false;
  bool decoupled_weight_decay = false;
  bool has_momentum = false;  // lifted: momentum != 0
};
// refuse: bias_correction && alpha >= 1, bias correction divides by 1 - alpha^t, so alpha must be below 1
struct Slots {
  NonNegative v;  // torch: square_avg
  Signed m;       // torch: momentum_buffer; if has_momentum
  Signed gavg;    // torch: grad_avg; if centered
};
struct Scalars {
  real lr, alpha, fresh, eps, weight_decay, shrink, momentum, root_correction;
};

template <Flags F>
struct Rule {
  static constexpr bool centralizes_vectors = true;

  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.alpha = static_cast<real>(h.alpha);
    s.fresh = static_cast<real>(1 - h.alpha);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.momentum = static_cast<real>(h.momentum);
    s.root_correction = static_cast<real>(F.bias_correction ? sqrt(1 - power(h.alpha, t)) : 1.0);
    return s;
  }
  KHD static real decayed(const auto& e, const auto& c) {
    return F.decoupled_weight_decay ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
  }
  // v - gavg^2 of the new averages, computed from the previous ones. This avoids cancellation, and it is not
  // negative if a codec rounded v and gavg differently.
  KHD static real variance(const auto& e, const auto& c) {
    // fma: v may be infinite where gavg^2 is, too
    const real prev = fma(-e.gavg.prev, e.gavg.prev, e.v.prev), drift = decayed(e, c) - e.gavg.prev;
    return c.alpha * (max(real(0), prev) + c.fresh * (drift * drift));
  }
  KHD static real direction(const auto& e, const auto& c) {
    const real square = F.centered ? variance(e, c) : e.v.next;
    return decayed(e, c) / (sqrt(square) / c.root_correction + c.eps);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = decayed(e, c);
    e.v.next = fma(c.alpha, e.v.prev, c.fresh * (g * g));
    if (F.centered) e.gavg.next = fma(c.alpha, e.gavg.prev, c.fresh * g);
    if (F.has_momentum) e.m.next = fma(c.momentum, e.m.prev, direction(e, c));
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real u = F.has_momentum ? e.m.next : direction(e, c);
    const real p = F.decoupled_weight_decay ? e.p * c.shrink : e.p;
    e.p = p - c.lr * u;
  }
};

}  // namespace jitstep::rules::rmsprop
