// LaProp (arXiv 2002.04839): an average of gradients that are normalized first, as timm's LaProp. The average
// contains each step's learning rate. lr1 is the average of those rates. Weight decay follows the update.
// class: LaProp
#pragma once
#include "../formulas/caution.cuh"
#include "../formulas/decay.cuh"

namespace jitstep::rules::laprop {

struct Hyper {
  double lr = 4e-4;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-15;               // >= 0
  double weight_decay = 0;          // >= 0
  Nullable initial_lr = null;       // >= 0; at construction: lr
};
struct Flags {
  bool caution = false;
  bool corrected_weight_decay = false;
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct AuxState {
  Entry<tensor, double> lr1;  // torch: exp_avg_lr_1
  Entry<tensor, double> lr2;  // torch: exp_avg_lr_2
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, correction, root_correction, shrink;
};
struct Caution {
  real scale;
};
struct Reductions {
  Sum<tensor, 1, Caution> agreeing;  // if caution
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& aux) {
    const double fresh1 = (1 - h.betas[0]) * h.lr, fresh2 = 1 - h.betas[1];
    const double lr1 = h.betas[0] * aux.lr1.prev + fresh1;
    const double lr2 = h.betas[1] * aux.lr2.prev + fresh2;
    aux.lr1.next = lr1;
    aux.lr2.next = lr2;
    const double decay_rate = formulas::decay_rate(F.corrected_weight_decay, h.lr, h.initial_lr);
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(fresh1);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(fresh2);
    s.eps = static_cast<real>(h.eps);
    s.correction = static_cast<real>(lr1 == 0 ? 0.0 : h.lr / lr1);
    s.root_correction = static_cast<real>(sqrt(lr2));
    s.shrink = static_cast<real>(1 - decay_rate * h.weight_decay);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
    const real scaled = e.g / (sqrt(e.v.next) / c.root_correction + c.eps);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * scaled);
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
    e.p = (e.p - c.correction * m) * c.shrink;
  }
};

}  // namespace jitstep::rules::laprop
