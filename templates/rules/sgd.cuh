// Stochastic gradient descent with momentum, as torch.optim.SGD. The momentum buffer starts as the first gradient,
// without dampening. With max_unorm, the norm of an update, before lr, is at most max_unorm times the norm of p
// (bitsandbytes' PytorchLARS).   class: SGD   step number: none
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::sgd {

struct Hyper {
  double lr = 1e-3;         // >= 0
  double momentum = 0;      // >= 0
  double dampening = 0;     // finite
  double weight_decay = 0;  // >= 0
  double max_unorm = 0;     // >= 0
};
struct Flags {
  bool nesterov = false;
  bool has_momentum = false;  // lifted: momentum != 0
  bool capped = false;        // lifted: max_unorm != 0
};
// refuse: nesterov && (momentum <= 0 || dampening != 0), Nesterov momentum requires a momentum and zero dampening
struct Slots {
  Signed m;  // torch: momentum_buffer; if has_momentum
};
struct Scalars {
  real lr, momentum, fresh, weight_decay;
  double max_unorm;
  bool first;
};
struct Cap {
  real factor;
};
struct Reductions {
  Sum<tensor, 2, Cap> cap;  // if capped
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.dampening);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.max_unorm = h.max_unorm;
    s.first = t == 1;
    return s;
  }
  KHD static real decayed(const auto& e, const auto& c) {
    return formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real d = decayed(e, c);
    e.m.next = c.first ? d : fma(c.momentum, e.m.prev, c.fresh * d);
  }
  KHD static real update(const auto& e, const auto& c) {
    const real d = decayed(e, c);
    if (!F.has_momentum) return d;
    return F.nesterov ? fma(c.momentum, e.m.next, d) : e.m.next;
  }
  KHD static Reals<2> terms(Of<Cap>, const auto& e, const auto& c) {
    const real u = update(e, c);
    return {e.p * e.p, u * u};
  }
  KHD static Cap finalize(Of<Cap>, const Totals<2>& sum, int64, const auto& c) {
    const double cap = c.max_unorm * sqrt(sum[0]), norm = sqrt(sum[1]);
    return {static_cast<real>(norm > cap ? cap / norm : 1.0)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real u = update(e, c);
    e.p -= c.lr * (F.capped ? c.cap.factor * u : u);
  }
};

}  // namespace jitstep::rules::sgd
