// LARC, Apex's wrapper of LARS's trust ratio around torch.optim.SGD. The ratio scales the gradient with weight decay.
// With `clip`, a step is never longer than lr would make it. If a tensor's weights or gradient are all 0, its gradient
// is not scaled and gets no weight decay.   class: LARC
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::larc {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  double momentum = 0;              // >= 0
  double weight_decay = 0;          // >= 0
  double trust_coefficient = 0.02;  // >= 0
  double eps = 1e-8;                // >= 0
};
struct Flags {
  bool clip = true;
  bool adapt = true;          // without it, plain SGD: for biases and normalization layers
  bool has_momentum = false;  // lifted: momentum != 0
};
struct Slots {
  Signed m;  // torch: momentum_buffer; if has_momentum
};
struct Scalars {
  real lr, momentum;
  double rate, weight_decay, trust_coefficient, eps;
};
struct Adapted {
  real scale, weight_decay;
};
struct Reductions {
  Sum<tensor, 2, Adapted> adapted;  // if adapt; update_state
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.momentum = static_cast<real>(h.momentum);
    s.rate = h.lr;
    s.weight_decay = h.weight_decay;
    s.trust_coefficient = h.trust_coefficient;
    s.eps = h.eps;
    return s;
  }
  KHD static Reals<2> terms(Of<Adapted>, const auto& e, const auto&) {
    return {e.p * e.p, e.g * e.g};
  }
  KHD static Adapted finalize(Of<Adapted>, const Totals<2>& sum, int64, const auto& c) {
    const double weights = sqrt(sum[0]), norm = sqrt(sum[1]);
    if (weights == 0 || norm == 0) return {1, 0};
    const double adaptive =
        c.trust_coefficient * weights / (norm + c.weight_decay * weights + c.eps);
    return {static_cast<real>(F.clip ? min(1.0, adaptive / abs(c.rate)) : adaptive),
            static_cast<real>(c.weight_decay)};
  }
  KHD static real gradient(const auto& e, const auto& c) {
    return F.adapt ? c.adapted.scale * formulas::decayed(c.adapted.weight_decay, e.p, e.g)
                   : formulas::decayed(static_cast<real>(c.weight_decay), e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.momentum, e.m.prev, gradient(e, c));
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * (F.has_momentum ? e.m.next : gradient(e, c));
  }
};

}  // namespace jitstep::rules::larc
