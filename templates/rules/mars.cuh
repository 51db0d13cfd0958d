// MARS (arXiv 2411.10438): Adam or Lion on gradients that are corrected by their difference to the previous gradient
// and clipped to norm 1, as timm's Mars. Vectors get AdamW's step unless optimize_1d is set. If a gradient has a NaN,
// its norm is NaN, and clipping makes every element of the tensor NaN.   class: MARS
#pragma once
#include "../formulas/caution.cuh"
#include "../formulas/decay.cuh"

namespace jitstep::rules::mars {

enum class Type { adamw, lion };
struct Hyper {
  double lr = 3e-3;                    // >= 0
  Numbers<2> betas = {0.9, 0.99};      // in [0, 1)
  double eps = 1e-8;                   // >= 0
  double weight_decay = 0;             // >= 0
  double gamma = 0.025;                // finite
  double lr_1d_factor = 1;             // >= 0
  Numbers<2> betas_1d = {null, null};  // in [0, 1); null means the value of betas
};
struct Flags {
  Type mars_type = Type::adamw;
  bool optimize_1d = false;
  bool caution = false;
  bool corrected = false;  // lifted: optimize_1d || dims > 1
  bool signs = false;      // lifted: corrected && mars_type == lion
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq; if !signs
  Signed gprev;   // torch: last_grad; codec: fp32
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, lr, correction, root_correction, weight_decay, gamma;
};
struct Clip {
  real factor;
};
struct Caution {
  real scale;
};
struct Reductions {
  Sum<tensor, 1, Clip> clip;         // if corrected; update_state
  Sum<tensor, 1, Caution> agreeing;  // if caution; after: clip
};

template <Flags F>
struct Rule {
  KHD static double beta(const Hyper& h, int i) {
    return F.corrected || h.betas_1d[i] != h.betas_1d[i] ? h.betas[i] : h.betas_1d[i];
  }
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double beta1 = beta(h, 0), beta2 = beta(h, 1);
    Scalars s;
    s.beta1 = static_cast<real>(beta1);
    s.fresh1 = static_cast<real>(1 - beta1);
    s.beta2 = static_cast<real>(beta2);
    s.fresh2 = static_cast<real>(1 - beta2);
    s.eps = static_cast<real>(h.eps);
    s.lr = static_cast<real>(F.corrected ? h.lr : h.lr * h.lr_1d_factor);
    s.correction = static_cast<real>(1 - power(beta1, t));
    s.root_correction = static_cast<real>(sqrt(1 - power(beta2, t)));
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.gamma = static_cast<real>(t == 1 ? 0.0 : h.gamma * beta1 / (1 - beta1));
    return s;
  }
  KHD static real corrected(const auto& e, const auto& c) {
    return fma(c.gamma, e.g - e.gprev.prev, e.g);
  }
  KHD static Reals<1> terms(Of<Clip>, const auto& e, const auto& c) {
    const real g = corrected(e, c);
    return {g * g};
  }
  KHD static Clip finalize(Of<Clip>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(max(1.0, sqrt(sum[0])))};
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = F.corrected ? corrected(e, c) / c.clip.factor : e.g;
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    if (!F.signs) e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
    e.gprev.next = e.g;
  }
  KHD static Reals<1> terms(Of<Caution>, const auto& e, const auto&) {
    return {formulas::agreement(e.m.next, e.g)};
  }
  KHD static Caution finalize(Of<Caution>, const Totals<1>& sum, int64 count, const auto&) {
    return {formulas::caution_scale(sum, count)};
  }
  KHD static real update(const auto& e, const auto& c) {
    real m = e.m.next;
    if (F.caution) m = formulas::cautious(m, e.g, c.agreeing.scale);
    if (F.signs) return sign(m);
    return m / c.correction / (sqrt(e.v.next) / c.root_correction + c.eps);
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * formulas::decayed(c.weight_decay, e.p, update(e, c));
  }
};

}  // namespace jitstep::rules::mars
