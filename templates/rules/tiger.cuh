// Tiger (kexue.fm/archives/9512): the sign of the average gradient, as pytorch_optimizer. A NaN gradient makes its
// element NaN, where torch.sign gives 0.   class: Tiger
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::tiger {

struct Hyper {
  double lr = 1e-3;            // >= 0
  double beta = 0.965;         // in [0, 1)
  double weight_decay = 1e-2;  // >= 0
};
struct Flags {
  bool weight_decouple = true;
  bool fixed_decay = false;
};
struct Slots {
  Signed m;  // torch: exp_avg
};
struct Scalars {
  real lr, beta, fresh, weight_decay, shrink;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.beta = static_cast<real>(h.beta);
    s.fresh = static_cast<real>(1 - h.beta);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - (F.fixed_decay ? 1.0 : h.lr) * h.weight_decay);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = F.weight_decouple ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
    e.m.next = fma(c.beta, e.m.prev, c.fresh * g);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real p = F.weight_decouple ? e.p * c.shrink : e.p;
    e.p = p - c.lr * sign(e.m.next);
  }
};

}  // namespace jitstep::rules::tiger
