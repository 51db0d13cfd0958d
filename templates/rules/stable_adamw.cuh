// StableAdamW (arXiv 2304.13013): AdamW with a rate per tensor that is divided by the root mean square of g / sqrt(v),
// if that is above 1. The averages have debiased betas instead of bias corrections, as pytorch_optimizer.
// class: StableAdamW
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::stable_adamw {

struct Hyper {
  double lr = 1e-3;                // >= 0
  Numbers<2> betas = {0.9, 0.99};  // in [0, 1)
  double eps = 1e-8;               // >= 0
  double weight_decay = 1e-2;      // >= 0
};
struct Flags {
  bool weight_decouple = true;
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, floor, coupled;
  double lr, decay;
};
struct Rate {
  real step, shrink;
};
struct Reductions {
  Sum<tensor, 1, Rate> rate;
};

template <Flags F>
struct Rule {
  // The weight of the old average in step t, so that the average is unbiased.
  KHD static double debiased(double beta, int64 t) {
    return beta * (1 - power(beta, t - 1)) / (1 - power(beta, t));
  }
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double beta1 = debiased(h.betas[0], t), beta2 = debiased(h.betas[1], t);
    Scalars s;
    s.beta1 = static_cast<real>(beta1);
    s.fresh1 = static_cast<real>(1 - beta1);
    s.beta2 = static_cast<real>(beta2);
    s.fresh2 = static_cast<real>(1 - beta2);
    s.eps = static_cast<real>(h.eps);
    s.floor = static_cast<real>(max(h.eps * h.eps, 0x1p-126));  // not 0, also for a float
    s.coupled = static_cast<real>(F.weight_decouple ? 0.0 : h.weight_decay);
    s.lr = h.lr;
    s.decay = F.weight_decouple ? h.weight_decay : 0.0;
    return s;
  }
  KHD static real gradient(const auto& e, const auto& c) {
    return F.weight_decouple ? e.g : formulas::decayed(c.coupled, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = gradient(e, c);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
  }
  KHD static Reals<1> terms(Of<Rate>, const auto& e, const auto& c) {
    const real g = gradient(e, c);
    return {g * g / max(c.floor, e.v.next)};
  }
  KHD static Rate finalize(Of<Rate>, const Totals<1>& sum, int64 count, const auto& c) {
    const double step = c.lr / max(1.0, sqrt(sum[0] / static_cast<double>(count)));
    return {static_cast<real>(step), static_cast<real>(1 - step * c.decay)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.rate.shrink - c.rate.step * (e.m.next / (sqrt(e.v.next) + c.eps));
  }
};

}  // namespace jitstep::rules::stable_adamw
