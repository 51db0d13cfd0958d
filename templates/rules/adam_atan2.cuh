// Adam-atan2 (arXiv 2407.05872): the step is a atan2(m, b sqrt(v)), so that it needs no eps and does not change with
// the scale of the gradients, as adam-atan2-pytorch. Weights decay towards 0, and with regen_reg_rate towards their
// values before the first step (arXiv 2308.11958). cautious_factor scales the elements that disagree with the gradient
// in sign (arXiv 2411.16085). cautious_wd is decay only where it agrees with the update (arXiv 2510.12402). decoupled_wd
// divides both decays by initial_lr.   class: AdamAtan2
#pragma once
#include "../formulas/caution.cuh"

namespace jitstep::rules::adam_atan2 {

struct Hyper {
  double lr = 1e-4;                // >= 0
  Numbers<2> betas = {0.9, 0.99};  // in [0, 1)
  double weight_decay = 0;         // >= 0
  double regen_reg_rate = 0;       // >= 0; decay towards the values before the first step
  double cautious_factor = 1;      // in [0, 1]; 1: no caution
  double a = 1.27;                 // >= 0; factor of the step, about 4 / pi
  double b = 1;                    // > 0; factor of the root
  Nullable initial_lr = null;      // >= 0; at construction: lr
};
struct Flags {
  bool decoupled_wd = false;
  bool cautious_wd = false;
  bool cautious = false;     // lifted: cautious_factor != 1
  bool regenerates = false;  // lifted: regen_reg_rate != 0
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
  Signed x0;      // torch: param_init; if regenerates; codec: fp32
};
struct AuxState {
  Entry<tensor, double> knows_x0;  // if regenerates
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, spread, inverse_correction, step_size, decay, regeneration;
  double cautious_factor;
  bool first;
};
struct Caution {
  real agreeing, others;
};
struct Reductions {
  Sum<tensor, 1, Caution> scale;  // if cautious
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    const bool divided = F.decoupled_wd && h.initial_lr.has_value() && h.initial_lr.value != 0;
    const double rate = divided ? h.lr / h.initial_lr.value : h.lr;
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.spread = static_cast<real>(h.b / sqrt(1 - power(h.betas[1], t)));
    s.inverse_correction = static_cast<real>(1 / (1 - power(h.betas[0], t)));
    s.step_size = static_cast<real>(h.lr * h.a);
    s.decay = static_cast<real>(rate * h.weight_decay);
    s.regeneration = static_cast<real>(rate * h.regen_reg_rate);
    s.cautious_factor = h.cautious_factor;
    s.first = F.regenerates && m.knows_x0.prev == 0;
    if (F.regenerates) m.knows_x0.next = 1;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
    if (F.regenerates) e.x0.next = c.first ? e.p : e.x0.prev;
  }
  KHD static real update(const auto& e, const auto& c) {
    return atan2(e.m.next * c.inverse_correction, sqrt(e.v.next) * c.spread);
  }
  KHD static Reals<1> terms(Of<Caution>, const auto& e, const auto& c) {
    return {formulas::agreement(update(e, c), e.g)};
  }
  KHD static Caution finalize(Of<Caution>, const Totals<1>& sum, int64 count, const auto& c) {
    const double share = sum[0] / static_cast<double>(count);
    const double mean = max(share + (1 - share) * c.cautious_factor, 1e-5);
    return {static_cast<real>(1 / mean), static_cast<real>(c.cautious_factor / mean)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    real u = update(e, c);
    if (F.cautious) u *= chosen(u * e.g > 0, c.scale.agreeing, c.scale.others);
    real p = e.p;
    if (F.regenerates) p = fma(c.regeneration, e.x0.next - p, p);
    const real decay = F.cautious_wd && !(u * p > 0) ? real(0) : c.decay;
    e.p = p * (1 - decay) - c.step_size * u;
  }
};

}  // namespace jitstep::rules::adam_atan2
