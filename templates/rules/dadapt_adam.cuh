// Adam with D-Adaptation (arXiv 2301.07733), as dadaptation's DAdaptAdam. It finds the step size d from the size of
// the weighted gradient sum s. All tensors share d and the step count k. Groups may have different lr, which
// dadaptation refuses. A group with lr 0 stays as it is.   class: DAdaptAdam
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::dadapt_adam {

struct Hyper {
  double lr = 1;                    // > 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1); same in all groups
  double eps = 1e-8;                // > 0
  double weight_decay = 0;          // >= 0
  double d0 = 1e-6;                 // > 0; same in all groups
  Nullable growth_rate = null;      // > 0; same in all groups; by default without limit
};
struct Flags {
  bool decouple = false;
  bool use_bias_correction = false;
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
  Signed s;
};
struct AuxState {
  Entry<all, double> d;  // initial: d0
  Entry<all, double> numerator_weighted;
  Entry<all, double> k;
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, beta3, fresh3, eps, weight_decay, decay, rate;
  double growth_rate, beta;
  bool frozen;
};
struct Estimate {
  bool moves;  // false if all gradients so far are zero, or lr is 0 everywhere: no state advances
};
struct Reductions {
  Sum<all, 2, Estimate> estimate;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    const int64 k = static_cast<int64>(m.k.prev) + 1;
    const double beta3 = sqrt(h.betas[1]);
    const double correction =
        F.use_bias_correction ? sqrt(1 - power(h.betas[1], k)) / (1 - power(h.betas[0], k)) : 1.0;
    const double rate = m.d.prev * h.lr * correction;
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(rate * (1 - h.betas[0]));
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.beta3 = static_cast<real>(beta3);
    s.fresh3 = static_cast<real>(rate * (1 - beta3));
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.decay = static_cast<real>(h.weight_decay * rate);
    s.rate = static_cast<real>(rate);
    s.growth_rate = h.growth_rate.has_value() ? h.growth_rate.value : kInfinity;
    s.beta = beta3;
    s.frozen = h.lr == 0;
    return s;
  }
  KHD static real gradient(const auto& e, const auto& c) {
    return F.decouple ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = gradient(e, c);
    e.m.next = chosen(c.frozen, e.m.prev, fma(c.beta1, e.m.prev, c.fresh1 * g));
    e.v.next = chosen(c.frozen, e.v.prev, fma(c.beta2, e.v.prev, c.fresh2 * (g * g)));
    e.s.next = chosen(c.frozen, e.s.prev, fma(c.beta3, e.s.prev, c.fresh3 * g));
  }
  KHD static Reals<2> terms(Of<Estimate>, const auto& e, const auto& c) {
    if (c.frozen) return {0, 0};
    const real scaled = e.s.prev / (sqrt(e.v.prev) + c.eps);
    return {c.rate * (gradient(e, c) * scaled), abs(e.s.next)};
  }
  KHD static Estimate finalize(Of<Estimate>, const Totals<2>& sum, int64, const auto& c,
                               AuxState& m) {
    if (sum[1] == 0) return {0};
    const double numerator = c.beta * m.numerator_weighted.prev + (1 - c.beta) * sum[0];
    const double d_hat = numerator / ((1 - c.beta) * sum[1]);
    m.numerator_weighted.next = numerator;
    // With these orders of operands, a d_hat of NaN leaves d.
    m.d.next = max(min(m.d.prev * c.growth_rate, d_hat), m.d.prev);
    m.k.next = m.k.prev + 1;
    return {1};
  }
  KHD static void update_param(auto& e, const auto& c) {
    if (!c.estimate.moves || c.frozen) return;
    // Not e.p (1 - decay): while d is small, 1 - decay rounds away most of the decay.
    const real p = F.decouple ? formulas::decayed(-c.decay, e.p, e.p) : e.p;
    e.p = p - e.m.next / (sqrt(e.v.next) + c.eps);
  }
};

}  // namespace jitstep::rules::dadapt_adam
