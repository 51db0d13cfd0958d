// NovoGrad (arXiv 1905.11286): the second moment is one number per tensor, the average of its gradient's squared
// norm. The defaults are those of NVIDIA's Jasper and timm: normalization and weight decay inside the first moment.
// Without `reg_inside_moment`, and with `bias_correction`, `grad_averaging` and betas of 0.9 and 0.999, it is Apex's
// FusedNovoGrad.   class: NovoGrad
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::novograd {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.95, 0.98};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0;          // >= 0
};
struct Flags {
  bool grad_averaging = false;
  bool reg_inside_moment = true;
  bool bias_correction = false;
  bool init_zero = false;  // without it, the second moment starts as the first nonzero squared norm
};
struct Slots {
  Signed m;  // torch: exp_avg
};
struct AuxState {
  Entry<tensor, double> v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, weight_decay, lr, correction;
  double beta2, root_correction, eps;
};
struct Norm {
  real inverse;
};  // 1 / (root of the second moment + eps)
struct Reductions {
  Sum<tensor, 1, Norm> norm;  // update_state
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(F.grad_averaging ? 1 - h.betas[0] : 1.0);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.correction = static_cast<real>(F.bias_correction ? 1 / (1 - power(h.betas[0], t)) : 1.0);
    s.lr = static_cast<real>(h.lr);
    s.beta2 = h.betas[1];
    s.root_correction = F.bias_correction ? sqrt(1 - power(h.betas[1], t)) : 1.0;
    s.eps = h.eps;
    return s;
  }
  KHD static Reals<1> terms(Of<Norm>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64, const auto& c, AuxState& m) {
    const double mean = c.beta2 * m.v.prev + (1 - c.beta2) * sum[0];
    m.v.next = m.v.prev == 0 && !F.init_zero ? sum[0] : mean;
    return {static_cast<real>(1 / (sqrt(m.v.next) / c.root_correction + c.eps))};
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g =
        F.reg_inside_moment ? formulas::decayed(c.weight_decay, e.p, e.g * c.norm.inverse) : e.g;
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real mean = e.m.next * c.correction;
    e.p -= c.lr * (F.reg_inside_moment
                       ? mean
                       : formulas::decayed(c.weight_decay, e.p, mean * c.norm.inverse));
  }
};

}  // namespace jitstep::rules::novograd
