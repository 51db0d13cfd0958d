// AdamW_BF16 (github.com/arogozhnikov/adamw_bfloat16): Adam in bfloat16 with Kahan compensation. It does not correct
// the bias of the first moment. lr rises linearly over `preheat_steps`, and then follows a power of the step number.
// Weight decay accumulates until it is large enough to change bfloat16 weights.
// class: AdamWBF16   default state: bf16   default weights: kahan
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::adamw_bf16 {

struct Hyper {
  double lr = 1e-3;                     // >= 0; the maximum
  double preheat_steps = 3000;          // > 0
  double decay_power = -0.5;            // finite
  Numbers<2> betas = {0.9, 0.999};      // in [0, 1)
  double eps = 1e-8;                    // >= 0
  double weight_decay = 0;              // >= 0
  List initial_accumulated_decay = {};  // in [0, 1); one per parameter; an empty list means 0
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct AuxState {
  Entry<tensor, double> accumulated_decay;  // initial: initial_accumulated_decay
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, step_size, shrink;
};

struct Rule {
  static constexpr double kDecayThreshold = 5e-3;

  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    const double x = static_cast<double>(t + 1) / h.preheat_steps;
    const double lr = h.lr * min(x, pow(x, h.decay_power));
    const double decay = m.accumulated_decay.prev + h.weight_decay * lr;
    const bool due = decay > kDecayThreshold;
    m.accumulated_decay.next = due ? 0.0 : decay;
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.step_size = static_cast<real>(lr * sqrt(1 - power(h.betas[1], t)));
    s.shrink = static_cast<real>(due ? 1 - decay : 1.0);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = (e.p - c.step_size * (e.m.next / (sqrt(e.v.next) + c.eps))) * c.shrink;
  }
};

}  // namespace jitstep::rules::adamw_bf16
