// AdEMAMix (arXiv 2409.03137): AdamW with a second, slow average of gradients, as apple/ml-ademamix. The slow
// average's weight and half-life may grow over the first t_alpha and t_beta3 steps. `decay` selects when p shrinks:
// `before` the update (apple), or `after` it (bitsandbytes).   class: AdEMAMix
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::ademamix {

enum class Decay { before, after };
struct Hyper {
  double lr = 1e-3;                         // >= 0
  Numbers<3> betas = {0.9, 0.999, 0.9999};  // in [0, 1)
  double alpha = 2;                         // >= 0
  double eps = 1e-8;                        // >= 0
  double weight_decay = 0;                  // >= 0
  Nullable t_alpha = null;                  // > 0
  Nullable t_beta3 = null;                  // > 0
};
struct Flags {
  Decay decay = Decay::before;
};
struct Slots {
  Signed m;       // torch: exp_avg_fast
  NonNegative v;  // torch: exp_avg_sq
  Signed m2;      // torch: exp_avg_slow
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, beta3, fresh3, eps, shrink, lr, correction, root_correction;
  real alpha;
};

template <Flags F>
struct Rule {
  // The completed share of a schedule of `steps` steps.
  KHD static double progress(int64 t, Nullable steps) {
    return steps.has_value() ? min(static_cast<double>(t) / steps.value, 1.0) : 1.0;
  }
  // The beta whose half-life is between those of `from` and `to`. A half-life is -1 / log2(beta) steps. apple
  // adds 1e-8 to beta in the logarithm, bitsandbytes nothing.
  KHD static double between(double from, double to, double share) {
    if (share >= 1) return to;
    return exp2(1 / ((1 - share) / log2(from) + share / log2(to)));
  }
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double beta3 = between(h.betas[0], h.betas[2], progress(t, h.t_beta3));
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.beta3 = static_cast<real>(beta3);
    s.fresh3 = static_cast<real>(1 - beta3);
    s.eps = static_cast<real>(h.eps);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.lr = static_cast<real>(h.lr);
    s.correction = static_cast<real>(1 - power(h.betas[0], t));
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    s.alpha = static_cast<real>(h.alpha * progress(t, h.t_alpha));
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
    e.m2.next = fma(c.beta3, e.m2.prev, c.fresh3 * e.g);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real m = fma(c.alpha, e.m2.next, e.m.next / c.correction);
    const real update = c.lr * (m / (sqrt(e.v.next) / c.root_correction + c.eps));
    e.p = F.decay == Decay::after ? (e.p - update) * c.shrink : e.p * c.shrink - update;
  }
};

}  // namespace jitstep::rules::ademamix
