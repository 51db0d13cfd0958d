// Ranger21 (arXiv 2106.13731): AdamW with positive-negative momentum, clipping by the norms of units, centralized and
// normalized gradients, norm loss, stable weight decay, softplus and Lookahead, as pytorch_optimizer's Ranger21 without its
// schedule. A unit is an index of dimension 0, or a whole vector. The original has other units for three dimensions.
// class: Ranger21
#pragma once
#include "../formulas/lookahead.cuh"

namespace jitstep::rules::ranger21 {

struct Hyper {
  double lr = 1e-3;                  // >= 0
  double beta0 = 0.9;                // in [0, 1); weight of the negative momentum
  Numbers<2> betas = {0.9, 0.999};   // in [0, 1)
  double beta_softplus = 50;         // > 0
  double agc_clipping_value = 1e-2;  // >= 0; largest norm of a unit's gradient, per weight norm
  double agc_eps = 1e-3;             // >= 0; lower bound of the weights' norm
  double weight_decay = 1e-4;        // >= 0
  double norm_loss_factor = 1e-4;    // >= 0
  double eps = 1e-8;                 // >= 0
  double lookahead_merge_time = 5;   // integer; >= 1; constant during training
  double lookahead_blending_alpha = 0.5;  // in [0, 1]
};
struct Flags {
  bool use_softplus = true;
  bool centralize_gradients = true;
  bool normalize_gradients = true;
  bool fixed_decay = false;  // decay that is not multiplied by lr
  bool centered = false;     // lifted: centralize_gradients && dims > 1
};
struct Slots {
  Signed m;          // torch: grad_ma; the momentum of odd steps
  Signed negative;   // torch: neg_grad_ma; the momentum of even steps
  NonNegative v;     // torch: variance_ma
  NonNegative vmax;  // torch: max_variance_ma
  Signed slow;       // torch: lookahead_params; codec: fp32
};
struct Scalars {
  real keep, fresh, beta2, fresh2, inverse_correction2, root_correction, eps, step_size, noise,
      beta0, lr, norm_loss, beta_softplus;
  double agc_eps, agc_clipping_value, decay;
  formulas::Lookahead ahead;
  int odd;  // 0 or 1. g++ vectorizes no loop that reads a bool.
};
struct Unit {
  real factor, mean, norm;  // of the gradient; its mean after that; norm of the weights
};
struct Spread {
  real first, second;  // divisors of the gradient for v, and of that one for the momentum
};
struct Stable {
  real shrink;
};
struct Reductions {
  Sum<first, 3, Unit> unit;       // update_state
  Sum<tensor, 2, Spread> spread;  // after: unit; update_state
  Sum<all, 1, Stable> stable;     // after: spread
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double square = h.betas[0] * h.betas[0], correction2 = 1 - power(h.betas[1], t);
    Scalars s;
    s.keep = static_cast<real>(square);
    s.fresh = static_cast<real>(1 - square);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.inverse_correction2 = static_cast<real>(1 / correction2);
    s.root_correction = static_cast<real>(sqrt(correction2));
    s.eps = static_cast<real>(h.eps);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    s.noise = static_cast<real>(1 / sqrt((1 + h.beta0) * (1 + h.beta0) + h.beta0 * h.beta0));
    s.beta0 = static_cast<real>(h.beta0);
    s.lr = static_cast<real>(h.lr);
    s.norm_loss = static_cast<real>(2 * h.norm_loss_factor);
    s.beta_softplus = static_cast<real>(h.beta_softplus);
    s.agc_eps = h.agc_eps;
    s.agc_clipping_value = h.agc_clipping_value;
    s.decay = h.weight_decay * (F.fixed_decay ? 1.0 : h.lr);
    s.ahead = formulas::lookahead(h.lookahead_merge_time, h.lookahead_blending_alpha, t);
    s.odd = t % 2 == 1 ? 1 : 0;
    return s;
  }

  KHD static Reals<3> terms(Of<Unit>, const auto& e, const auto&) {
    return {e.g * e.g, e.p * e.p, e.g};
  }
  KHD static Unit finalize(Of<Unit>, const Totals<3>& sum, int64 count, const auto& c) {
    const double weights = sqrt(sum[1]), size = max(sqrt(sum[0]), 1e-6);
    const double most = max(weights, c.agc_eps) * c.agc_clipping_value;
    const double factor = size > most ? most / size : 1.0;
    // The mean is of the scaled gradients as they are rounded: equal ones are exactly 0 after it.
    const real scale = static_cast<real>(factor);
    const double mean = static_cast<double>(scale) * (sum[2] / static_cast<double>(count));
    return {scale, F.centered ? static_cast<real>(mean) : real(0), static_cast<real>(weights)};
  }
  KHD static real centered(const auto& e, const auto& c) {
    return e.g * c.unit.factor - c.unit.mean;
  }

  KHD static Reals<2> terms(Of<Spread>, const auto& e, const auto& c) {
    const real g = centered(e, c);
    return {g, g * g};
  }
  // The original divides by the standard deviation twice. The second one is close to 1.
  KHD static Spread finalize(Of<Spread>, const Totals<2>& sum, int64 count, const auto&) {
    if (!F.normalize_gradients || count <= 2) return {real(1), real(1)};
    const double n = static_cast<double>(count);
    const double deviation = sqrt(max(sum[1] - sum[0] * (sum[0] / n), 0.0) / (n - 1));
    const double first = deviation + 1e-8;
    return {static_cast<real>(first), static_cast<real>(deviation / first + 1e-8)};
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = centered(e, c) / c.spread.first, again = g / c.spread.second;
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
    e.vmax.next = maximum(e.vmax.prev, e.v.next);
    e.m.next = c.odd != 0 ? fma(c.keep, e.m.prev, c.fresh * again) : e.m.prev;
    e.negative.next = c.odd != 0 ? e.negative.prev : fma(c.keep, e.negative.prev, c.fresh * again);
    e.slow.next = formulas::slow_copy(e.p, e.slow.prev, c.ahead);
  }

  KHD static Reals<1> terms(Of<Stable>, const auto& e, const auto& c) {
    return {e.v.next * c.inverse_correction2};
  }
  KHD static Stable finalize(Of<Stable>, const Totals<1>& sum, int64 count, const auto& c) {
    const double mean = (1 + sum[0]) / static_cast<double>(count);
    return {static_cast<real>(1 - c.decay / sqrt(mean))};
  }
  // log(1 + e^x) for x up to 20. In float, its relative error is about 2^-21.
  KHD static real softplus(real x) {
    if constexpr (kSame<real, float>) {
      const float power = exp2_of_element(static_cast<float>(x) * 0x1.715476p+0f);
      return log2_of_element(1 + power) * 0x1.62e43p-1f;
    } else {
      return static_cast<real>(log(1 + exp(static_cast<double>(x))));
    }
  }
  // As torch's softplus, which is the identity above 20 / beta.
  KHD static real denominator(const auto& e, const auto& c) {
    const real x = sqrt(e.vmax.next) / c.root_correction + c.eps;
    if (!F.use_softplus) return x;
    const real scaled = x * c.beta_softplus;
    return chosen(scaled <= 20, softplus(min(scaled, real(20))) / c.beta_softplus, x);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real size = abs(c.stable.shrink) * c.unit.norm + c.eps;
    const real loss = c.lr * (c.norm_loss * (1 - 1 / size));
    const real decayed = e.p * c.stable.shrink * (1 - loss);
    const real positive = c.odd != 0 ? e.m.next : e.negative.next;
    const real other = c.odd != 0 ? e.negative.next : e.m.next;
    const real momentum = c.noise * ((1 + c.beta0) * positive - c.beta0 * other);
    const real fast = decayed - c.step_size * (momentum / denominator(e, c));
    e.p = formulas::merged(fast, e.slow.next, c.ahead);
  }
};

}  // namespace jitstep::rules::ranger21
