// NVLAMB, NVIDIA's LAMB, as Apex's FusedLAMB. It first clips gradients to a global norm of `max_grad_norm`. 0 means
// no clipping, where Apex would make the gradients zero. A tensor without weight decay gets Adam's step, unless
// `use_nvlamb` is set. Without `adam_w_mode`, weight decay is coupled.   class: NVLAMB
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::nvlamb {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-6;                // >= 0
  double weight_decay = 1e-2;       // >= 0
  double max_grad_norm = 1;         // >= 0; 0: off
};
struct Flags {
  bool bias_correction = true;
  bool grad_averaging = true;
  bool adam_w_mode = true;
  bool use_nvlamb = false;
  bool adapted = false;     // lifted: use_nvlamb || weight_decay != 0
  bool normalized = false;  // lifted: max_grad_norm != 0
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, weight_decay, lr, correction, root_correction;
  double max_grad_norm;
};
struct Norm {
  real factor;
};  // multiplies the gradient
struct Trust {
  real step;
};  // lr times the trust ratio
struct Reductions {
  Sum<all, 1, Norm> norm;       // if normalized; update_state
  Sum<tensor, 2, Trust> trust;  // if adapted; after: norm
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(F.grad_averaging ? 1 - h.betas[0] : 1.0);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.lr = static_cast<real>(h.lr);
    s.correction = static_cast<real>(F.bias_correction ? 1 / (1 - power(h.betas[0], t)) : 1.0);
    s.root_correction = static_cast<real>(F.bias_correction ? sqrt(1 - power(h.betas[1], t)) : 1.0);
    s.max_grad_norm = h.max_grad_norm;
    return s;
  }
  KHD static Reals<1> terms(Of<Norm>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64, const auto& c) {
    const double norm = sqrt(sum[0]);
    return {static_cast<real>(norm > c.max_grad_norm ? c.max_grad_norm / norm : 1.0)};
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real normalized = F.normalized ? e.g * c.norm.factor : e.g;
    const real g =
        F.adam_w_mode ? normalized : formulas::decayed(c.weight_decay, e.p, normalized);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
  }
  KHD static real update(const auto& e, const auto& c) {
    const real direction = e.m.next * c.correction / (sqrt(e.v.next) / c.root_correction + c.eps);
    return F.adam_w_mode ? formulas::decayed(c.weight_decay, e.p, direction) : direction;
  }
  KHD static Reals<2> terms(Of<Trust>, const auto& e, const auto& c) {
    const real u = update(e, c);
    return {e.p * e.p, u * u};
  }
  KHD static Trust finalize(Of<Trust>, const Totals<2>& sum, int64, const auto& c) {
    const double weights = sqrt(sum[0]), norm = sqrt(sum[1]);
    const double ratio = weights == 0 || norm == 0 ? 1.0 : weights / norm;
    return {static_cast<real>(c.lr * ratio)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= (F.adapted ? c.trust.step : c.lr) * update(e, c);
  }
};

}  // namespace jitstep::rules::nvlamb
