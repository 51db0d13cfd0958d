// Prodigy (arXiv 2306.06101): Adam that finds its step size d from the distance of the weights to their initial values
// p0, as prodigyopt. All tensors share d and the step count k. Groups may have different lr, which prodigyopt refuses.
// A group with lr 0 stays as it is.   class: Prodigy
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::prodigy {

struct Hyper {
  double lr = 1;                    // > 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1); same in all groups
  Nullable beta3 = null;            // in [0, 1); same in all groups; by default the root of betas[1]
  double eps = 1e-8;                // > 0
  double weight_decay = 0;          // >= 0
  double d0 = 1e-6;                 // > 0; same in all groups
  double d_coef = 1;                // > 0; same in all groups
  Nullable growth_rate = null;      // > 0; same in all groups; by default without limit
  double slice_p = 1;               // integer; >= 1; d uses every slice_p-th element
};
struct Flags {
  bool decouple = true;
  bool use_bias_correction = false;
  bool safeguard_warmup = false;
  bool has_momentum = false;  // lifted: betas[0] != 0
  bool sliced = false;        // lifted: slice_p != 1
};
struct Slots {
  Signed m;       // torch: exp_avg; if has_momentum
  NonNegative v;  // torch: exp_avg_sq
  Signed s;
  Signed p0;  // codec: fp32
};
struct AuxState {
  Entry<all, double> d;      // initial: d0
  Entry<all, double> d_max;  // initial: d0
  Entry<all, double> d_numerator;
  Entry<all, double> k;
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, beta3, fresh3, eps, weight_decay, decay, rate, weight;
  double d0, d_coef, growth_rate, beta;
  int64 slice;
  bool first, frozen;
};
struct Estimate {
  real d;
  bool moves;  // false if all gradients so far are zero, or lr is 0 everywhere: no state advances
};
struct Reductions {
  Sum<all, 2, Estimate> estimate;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    const int64 k = static_cast<int64>(m.k.prev) + 1;
    const double d = m.d.prev, beta3 = h.beta3.has_value() ? h.beta3.value : sqrt(h.betas[1]);
    const double correction =
        F.use_bias_correction ? sqrt(1 - power(h.betas[1], k)) / (1 - power(h.betas[0], k)) : 1.0;
    const double rate = d * h.lr * correction;
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(d * (1 - h.betas[0]));
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(d * d * (1 - h.betas[1]));
    s.beta3 = static_cast<real>(beta3);
    s.fresh3 = static_cast<real>(d / h.d0 * (F.safeguard_warmup ? d : rate));
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.decay = static_cast<real>(h.weight_decay * rate);
    s.rate = static_cast<real>(rate);
    s.weight = static_cast<real>(d / h.d0 * rate);
    s.d0 = h.d0;
    s.d_coef = h.d_coef;
    s.growth_rate = h.growth_rate.has_value() ? h.growth_rate.value : kInfinity;
    s.beta = beta3;
    s.slice = static_cast<int64>(h.slice_p);
    s.first = t == 1;
    s.frozen = h.lr == 0;
    return s;
  }
  KHD static real gradient(const auto& e, const auto& c) {
    return F.decouple ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static bool in_slice(const auto& e, const auto& c) {
    return !F.sliced || e.index % c.slice == 0;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = gradient(e, c);
    if (F.has_momentum) e.m.next = chosen(c.frozen, e.m.prev, fma(c.beta1, e.m.prev, c.fresh1 * g));
    e.v.next = chosen(c.frozen, e.v.prev, fma(c.beta2, e.v.prev, c.fresh2 * (g * g)));
    const real s = chosen(c.frozen, e.s.prev, fma(c.beta3, e.s.prev, c.fresh3 * g));
    e.s.next = in_slice(e, c) ? s : real(0);
    e.p0.next = c.first ? e.p : e.p0.prev;
  }
  KHD static Reals<2> terms(Of<Estimate>, const auto& e, const auto& c) {
    if (c.frozen) return {0, 0};
    const real moved = in_slice(e, c) ? e.p0.next - e.p : real(0);
    return {c.weight * (gradient(e, c) * moved), abs(e.s.next)};
  }
  KHD static Estimate finalize(Of<Estimate>, const Totals<2>& sum, int64, const auto& c,
                               AuxState& m) {
    if (sum[1] == 0) return {static_cast<real>(m.d.prev), false};
    const double numerator = c.beta * m.d_numerator.prev + sum[0];
    const double d_hat = c.d_coef * numerator / sum[1];
    // max(d_hat, x) is x if d_hat is NaN: a gradient that is not finite leaves d.
    const double d = m.d.prev == c.d0 ? max(d_hat, m.d.prev) : m.d.prev;
    m.d_numerator.next = numerator;
    m.d_max.next = max(d_hat, m.d_max.prev);
    m.d.next = min(m.d_max.next, d * c.growth_rate);
    m.k.next = m.k.prev + 1;
    return {static_cast<real>(m.d.next), true};
  }
  KHD static void update_param(auto& e, const auto& c) {
    if (!c.estimate.moves || c.frozen) return;
    const real d = c.estimate.d;
    const real m = F.has_momentum ? e.m.next : d * gradient(e, c);
    // Not e.p (1 - decay): while d is small, 1 - decay rounds away most of the decay.
    const real p = F.decouple ? formulas::decayed(-c.decay, e.p, e.p) : e.p;
    e.p = p - c.rate * (m / (sqrt(e.v.next) + d * c.eps));
  }
};

}  // namespace jitstep::rules::prodigy
