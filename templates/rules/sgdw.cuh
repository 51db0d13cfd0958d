// SGD with momentum and decoupled weight decay (arXiv 1711.05101), as timm's SGDW.   class: SGDW   step number: none
#pragma once
#include "../formulas/caution.cuh"
#include "../formulas/decay.cuh"

namespace jitstep::rules::sgdw {

struct Hyper {
  double lr = 1e-3;            // >= 0
  double momentum = 0;         // >= 0
  double dampening = 0;        // finite
  double weight_decay = 0;     // >= 0
  Nullable initial_lr = null;  // >= 0; at construction: lr
};
struct Flags {
  bool nesterov = false;
  bool caution = false;
  bool corrected_weight_decay = false;
  bool has_momentum = false;  // lifted: momentum != 0
};
// refuse: nesterov && (momentum <= 0 || dampening != 0), Nesterov momentum requires a momentum and zero dampening
struct Slots {
  Signed m;  // torch: momentum_buffer; if has_momentum
};
struct Scalars {
  real lr, momentum, fresh, shrink;
  bool first;
};
struct Caution {
  real scale;
};
struct Reductions {
  Sum<tensor, 1, Caution> agreeing;  // if caution && has_momentum
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double decay_rate = formulas::decay_rate(F.corrected_weight_decay, h.lr, h.initial_lr);
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.dampening);
    s.shrink = static_cast<real>(1 - decay_rate * h.weight_decay);
    s.first = t == 1;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = c.first ? e.g : fma(c.momentum, e.m.prev, c.fresh * e.g);
  }
  KHD static real update(const auto& e, const auto& c) {
    if (!F.has_momentum) return e.g;
    return F.nesterov ? fma(c.momentum, e.m.next, e.g) : e.m.next;
  }
  KHD static Reals<1> terms(Of<Caution>, const auto& e, const auto& c) {
    return {formulas::agreement(update(e, c), e.g)};
  }
  KHD static Caution finalize(Of<Caution>, const Totals<1>& sum, int64 count, const auto&) {
    return {formulas::caution_scale(sum, count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    real u = update(e, c);
    if (F.caution && F.has_momentum) u = formulas::cautious(u, e.g, c.agreeing.scale);
    e.p = e.p * c.shrink - c.lr * u;
  }
};

}  // namespace jitstep::rules::sgdw
