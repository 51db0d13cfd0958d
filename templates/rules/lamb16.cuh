// LAMB16 (github.com/vxst/LAMB16): LAMB without bias correction, with a power of the trust ratio. So the step is a
// weighted geometric mean of lr and of a thousandth of ||p|| / ||update||, and at most 2 lr. The `original` form gives
// the original's numbers, in its own state format. The `corrected` form corrects the bias of both moments. It does not
// cap elements at 1 in the norms, because that cap hid the bias in the first steps. Its norms leave out values that are
// not finite, so that such a gradient affects only its own element. Its 8-bit state has one scale per block.
// (Why softsign: over 120 steps of Fashion-MNIST gradients, its momentum has a cosine of 0.9999 with float32's and
// its update 0.9996. For int8 they are 0.9996 and 0.998.)
// default state: fp8_norm(least_norm = eps) if form == original
// default state: int8_softsign
// class: LAMB16
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::lamb16 {

enum class Form { original, corrected };
struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-6;                // >= 0; also the smallest square of an element in both norms
  double weight_decay = 0;          // >= 0
  double trust_scale = 0.382;       // >= 0
};
struct Flags {
  Form form = Form::corrected;
  bool adapt = true;  // without it, trust ratio 1: for biases and normalization layers
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, weight_decay, correction, root_correction;
  double lr, trust_scale;
};
struct Trust {
  real step;
};  // lr times the trust ratio
struct Reductions {
  Sum<tensor, 2, Trust> trust;  // if adapt
};

template <Flags F>
struct Rule {
  static constexpr bool original = F.form == Form::original;

  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.correction = static_cast<real>(original ? 1.0 : 1 / (1 - power(h.betas[0], t)));
    s.root_correction = static_cast<real>(original ? 1.0 : sqrt(1 - power(h.betas[1], t)));
    s.lr = h.lr;
    s.trust_scale = h.trust_scale;
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
  KHD static real square(real x, const auto& c) {
    const real square = x * x;
    if constexpr (original) return max(c.eps, min(real(1), square));
    return is_finite(square) ? max(c.eps, square) : real(0);
  }
  KHD static Reals<2> terms(Of<Trust>, const auto& e, const auto& c) {
    return {square(e.p, c), square(update(e, c), c)};
  }
  KHD static Trust finalize(Of<Trust>, const Totals<2>& sum, int64, const auto& c) {
    const double ratio = 1e-3 * sqrt(sum[0]) / sqrt(sum[1]) / abs(c.lr);
    return {static_cast<real>(c.lr * min(2.0, pow(ratio, c.trust_scale)))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= (F.adapt ? c.trust.step : static_cast<real>(c.lr)) * update(e, c);
  }
};

}  // namespace jitstep::rules::lamb16
