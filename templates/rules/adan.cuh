// Adan (arXiv 2208.06677): Nesterov momentum by differences of gradients, as timm's Adan. Proximal weight decay divides
// by 1 + lr wd after the update. With no_prox, p is multiplied by 1 - lr wd before it.   class: Adan
#pragma once
#include "../formulas/caution.cuh"

namespace jitstep::rules::adan {

struct Hyper {
  double lr = 1e-3;                       // >= 0
  Numbers<3> betas = {0.98, 0.92, 0.99};  // in [0, 1)
  double eps = 1e-8;                      // >= 0
  double weight_decay = 0;                // >= 0
};
struct Flags {
  bool no_prox = false;
  bool caution = false;
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
  Signed diff;    // torch: exp_avg_diff
  Signed gprev;   // torch: pre_grad; codec: fp32
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, beta3, fresh3, eps, step_size, diff_size, root_correction;
  real shrink;
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
    const double decay = h.lr * h.weight_decay;
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.beta3 = static_cast<real>(h.betas[2]);
    s.fresh3 = static_cast<real>(1 - h.betas[2]);
    s.eps = static_cast<real>(h.eps);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    s.diff_size = static_cast<real>(h.lr * h.betas[1] / (1 - power(h.betas[1], t)));
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[2], t)));
    s.shrink = static_cast<real>(F.no_prox ? 1 - decay : 1 / (1 + decay));
    s.first = t == 1;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real diff = c.first ? real(0) : e.g - e.gprev.prev;
    const real ahead = fma(c.beta2, diff, e.g);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.diff.next = fma(c.beta2, e.diff.prev, c.fresh2 * diff);
    e.v.next = fma(c.beta3, e.v.prev, c.fresh3 * (ahead * ahead));
    e.gprev.next = e.g;
  }
  KHD static Reals<1> terms(Of<Caution>, const auto& e, const auto&) {
    return {formulas::agreement(e.m.next, e.g)};
  }
  KHD static Caution finalize(Of<Caution>, const Totals<1>& sum, int64 count, const auto&) {
    return {formulas::caution_scale(sum, count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    real m = e.m.next;
    if (F.caution) m = formulas::cautious(m, e.g, c.agreeing.scale);
    const real denominator = sqrt(e.v.next) / c.root_correction + c.eps;
    const real update = fma(c.step_size, m, c.diff_size * e.diff.next) / denominator;
    e.p = F.no_prox ? e.p * c.shrink - update : (e.p - update) * c.shrink;
  }
};

}  // namespace jitstep::rules::adan
