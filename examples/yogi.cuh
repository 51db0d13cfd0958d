// Yogi: Adam whose second moment moves by steps of the gradient's size instead of decaying (Zaheer et al.,
// "Adaptive Methods for Nonconvex Optimization", NeurIPS 2018, Algorithm 2). Bias correction and the initial value
// of v follow TensorFlow Federated.   class: Yogi
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::yogi {

struct Hyper {
  double lr = 1e-2;                         // >= 0
  Numbers<2> betas = {0.9, 0.999};          // in [0, 1)
  double eps = 1e-3;                        // >= 0
  double initial_accumulator_value = 1e-6;  // >= 0
};
struct Flags {
  bool bias_correction = true;  // the paper has none
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq; initial: initial_accumulator_value
};
struct Scalars {
  real beta1, fresh1, fresh2, eps, step_size;
};

template <Flags F>
struct Rule {
  // Computes the values that are the same for every element, once per step, in double.
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double correction = sqrt(1 - power(h.betas[1], t)) / (1 - power(h.betas[0], t));
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.step_size = static_cast<real>(F.bias_correction ? h.lr * correction : h.lr);
    return s;
  }
  // v stays non-negative, because it decreases only by a small fraction of a square that is smaller than v.
  KHD static void update_state(auto& e, const auto& c) {
    const real square = e.g * e.g;
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = e.v.prev - c.fresh2 * (sign(e.v.prev - square) * square);
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.step_size * (e.m.next / (sqrt(e.v.next) + c.eps));
  }
};

}  // namespace jitstep::rules::yogi
