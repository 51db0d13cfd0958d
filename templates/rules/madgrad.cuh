// MADGRAD (arXiv 2101.11075): dual averaging from the initial weights x0, scaled by the cube root of the summed
// squares, as timm's MADGRAD. Without momentum, x0 is not stored. Each step then computes it from the previous step.
// So does the first step after momentum was switched on.   class: MADGRAD
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::madgrad {

struct Hyper {
  double lr = 1e-2;         // > 0
  double momentum = 0.9;    // in [0, 1)
  double weight_decay = 0;  // >= 0
  double eps = 1e-6;        // >= 0
};
struct Flags {
  bool decoupled_decay = false;
  bool has_momentum = false;  // lifted: momentum != 0
};
struct Slots {
  NonNegative v;  // torch: grad_sum_sq
  Signed s;
  Signed x0;  // if has_momentum; codec: fp32
};
struct AuxState {
  Entry<tensor, double> knows_x0;  // if has_momentum
};
struct Scalars {
  real rate, eps, momentum, fresh, weight_decay, shrink;
  bool first;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    Scalars s;
    s.rate = static_cast<real>((h.lr + h.eps) * sqrt(static_cast<double>(t)));
    s.eps = static_cast<real>(h.eps);
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.momentum);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.first = F.has_momentum && m.knows_x0.prev == 0;
    if (F.has_momentum) m.knows_x0.next = 1;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = F.decoupled_decay ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
    e.v.next = fma(c.rate, g * g, e.v.prev);
    e.s.next = fma(c.rate, g, e.s.prev);
    if (F.has_momentum) e.x0.next = c.first ? e.p + distance(e.s.prev, e.v.prev, c) : e.x0.prev;
  }
  KHD static real distance(real s, real v, const auto& c) {
    return chosen(s == 0, s, s / (cbrt(v) + c.eps));  // eps may be 0
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real p = F.decoupled_decay ? e.p * c.shrink : e.p;
    const real x0 = F.has_momentum ? e.x0.next : p + distance(e.s.prev, e.v.prev, c);
    const real z = x0 - distance(e.s.next, e.v.next, c);
    e.p = F.has_momentum ? fma(c.momentum, p, c.fresh * z) : z;
  }
};

}  // namespace jitstep::rules::madgrad
