// AdaBelief (arXiv 2010.07468): Adam scaled by the variance of the gradient around its average, as pytorch_optimizer.
// Each step adds eps to the variance, and to the denominator. `rectify` is RAdam's rectification (arXiv 1908.03265).
// A step whose variance is still too uncertain is then plain momentum. Without `degenerated_to_sgd`, it does nothing.
// class: AdaBelief
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::adabelief {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-16;               // >= 0
  double weight_decay = 0;          // >= 0
  double n_sma_threshold = 5;       // > 4
};
struct Flags {
  bool weight_decouple = true;
  bool fixed_decay = false;
  bool rectify = false;
  bool degenerated_to_sgd = true;
  bool ams_bound = false;
  bool adam_debias = false;
};
struct Slots {
  Signed m;          // torch: exp_avg
  NonNegative v;     // torch: exp_avg_var
  NonNegative vmax;  // torch: max_exp_avg_var; if ams_bound
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, weight_decay, shrink, step_size, root_correction;
  bool adaptive;
};

template <Flags F>
struct Rule {
  // RAdam's factor for n degrees of freedom, of which at most `most` exist.
  KHD static double rectification(double n, double most) {
    return sqrt((n - 4) * (n - 2) * most / ((most - 4) * (most - 2) * n));
  }
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double power2 = power(h.betas[1], t), root = sqrt(1 - power2);
    const double most = 2 / (1 - h.betas[1]) - 1;
    const double n = most - 2 * static_cast<double>(t) * power2 / (1 - power2);
    const double step_size = h.lr / (F.adam_debias ? 1.0 : 1 - power(h.betas[0], t));
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - (F.fixed_decay ? 1.0 : h.lr) * h.weight_decay);
    s.adaptive = !F.rectify || n >= h.n_sma_threshold;
    s.root_correction = static_cast<real>(F.rectify ? 1.0 : root);
    s.step_size = static_cast<real>(step_size);
    if (F.rectify && s.adaptive)
      s.step_size = static_cast<real>(step_size * root * rectification(n, most));
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = F.weight_decouple ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    const real surprise = g - e.m.next;
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (surprise * surprise)) + c.eps;
    if (F.ams_bound) e.vmax.next = maximum(e.vmax.prev, e.v.next);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real v = F.ams_bound ? e.vmax.next : e.v.next;
    const real p = F.weight_decouple ? e.p * c.shrink : e.p;
    real update = e.m.next / (sqrt(v) / c.root_correction + c.eps);
    if (F.rectify && !c.adaptive) update = F.degenerated_to_sgd ? e.m.next : real(0);
    e.p = p - c.step_size * update;
  }
};

}  // namespace jitstep::rules::adabelief
