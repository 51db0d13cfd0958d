// ADOPT (arXiv 2411.02853): Adam with the second moment of the previous step, so that any beta2 converges, as timm's
// Adopt. Step 1 only sets v. Step k + 1 clips at k^clip_exp.   class: ADOPT
#pragma once
#include "../formulas/caution.cuh"
#include "../formulas/decay.cuh"

namespace jitstep::rules::adopt {

struct Hyper {
  double lr = 1e-3;                  // >= 0
  Numbers<2> betas = {0.9, 0.9999};  // in [0, 1)
  double eps = 1e-6;                 // >= 0; smallest denominator, not added to it
  Nullable clip_exp = 0.333;         // finite
  double weight_decay = 0;           // >= 0
  Nullable initial_lr = null;        // >= 0; at construction: lr
};
struct Flags {
  bool decoupled = false;
  bool caution = false;
  bool corrected_weight_decay = false;
  bool clipped = false;  // lifted: clip_exp != null
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real lr, beta1, fresh1, beta2, fresh2, eps, clip, weight_decay, shrink;
  bool first;
};
struct Caution {
  real scale;
};
struct Reductions {
  Sum<tensor, 1, Caution> agreeing;  // if caution
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double decay_rate = formulas::decay_rate(F.corrected_weight_decay, h.lr, h.initial_lr);
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.clip = static_cast<real>(F.clipped ? pow(static_cast<double>(t - 1), h.clip_exp.value) : 0.0);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(F.decoupled ? 1 - decay_rate * h.weight_decay : 1.0);
    s.first = t == 1;
    return s;
  }
  KHD static real gradient(const auto& e, const auto& c) {
    return F.decoupled ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = gradient(e, c);
    real u = g / max(c.eps, sqrt(e.v.prev));
    if (F.clipped) u = max(-c.clip, min(c.clip, u));
    e.m.next = c.first ? e.m.prev : fma(c.beta1, e.m.prev, c.fresh1 * u);
    e.v.next = c.first ? g * g : fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
  }
  KHD static Reals<1> terms(Of<Caution>, const auto& e, const auto& c) {
    return {formulas::agreement(e.m.next, gradient(e, c))};
  }
  KHD static Caution finalize(Of<Caution>, const Totals<1>& sum, int64 count, const auto&) {
    return {formulas::caution_scale(sum, count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    if (c.first) return;
    real m = e.m.next;
    if (F.caution) m = formulas::cautious(m, gradient(e, c), c.agreeing.scale);
    e.p = e.p * c.shrink - c.lr * m;
  }
};

}  // namespace jitstep::rules::adopt
