// Signum: the sign of the momentum, with decoupled weight decay (arXiv 1802.04434).   class: Signum
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::signum {

struct Hyper {
  double lr = 1e-3;         // >= 0
  double momentum = 0.9;    // in [0, 1)
  double weight_decay = 0;  // >= 0
};
struct Slots {
  Signed m;  // torch: momentum_buffer
};
struct Scalars {
  real lr, momentum, fresh, shrink;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.momentum);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.momentum, e.m.prev, c.fresh * e.g);
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.shrink - c.lr * sign(e.m.next);
  }
};

}  // namespace jitstep::rules::signum
