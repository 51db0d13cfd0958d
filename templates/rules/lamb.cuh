// LAMB (arXiv 1904.00962): Adam's update, scaled per tensor to the norm of the weights. eps is outside the root, and
// phi is the identity, as in TensorFlow and optax. Without bias_correction and with weight_norm_max = 10 it is
// cybertronai's pytorch-lamb.   class: LAMB
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::lamb {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-6;                // >= 0
  double weight_decay = 0;          // >= 0
  Nullable weight_norm_max = null;  // > 0
};
struct Flags {
  bool bias_correction = true;
  bool adapt = true;  // without it, trust ratio 1: for biases and normalization layers
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, weight_decay, lr, correction, root_correction;
  double weight_norm_max;
};
struct Trust {
  real step;
};  // lr times the trust ratio
struct Reductions {
  Sum<tensor, 2, Trust> trust;  // if adapt
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.lr = static_cast<real>(h.lr);
    s.correction = static_cast<real>(F.bias_correction ? 1 / (1 - power(h.betas[0], t)) : 1.0);
    s.root_correction = static_cast<real>(F.bias_correction ? sqrt(1 - power(h.betas[1], t)) : 1.0);
    s.weight_norm_max = h.weight_norm_max.has_value() ? h.weight_norm_max.value : kInfinity;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
  }
  KHD static real update(const auto& e, const auto& c) {
    const real direction = e.m.next * c.correction / (sqrt(e.v.next) / c.root_correction + c.eps);
    return formulas::decayed(c.weight_decay, e.p, direction);
  }
  KHD static Reals<2> terms(Of<Trust>, const auto& e, const auto& c) {
    const real u = update(e, c);
    return {e.p * e.p, u * u};
  }
  KHD static Trust finalize(Of<Trust>, const Totals<2>& sum, int64, const auto& c) {
    const double weights = min(sqrt(sum[0]), c.weight_norm_max), norm = sqrt(sum[1]);
    const double ratio = weights == 0 || norm == 0 ? 1.0 : weights / norm;
    return {static_cast<real>(c.lr * ratio)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= (F.adapt ? c.trust.step : c.lr) * update(e, c);
  }
};

}  // namespace jitstep::rules::lamb
