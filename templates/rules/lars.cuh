// LARS (arXiv 1708.03888): momentum with steps scaled, per tensor, to the norm of the weights. The originals differ in
// where lr and the trust ratio apply. `classic`: both inside the momentum (TensorFlow Model Garden, optax). `popular`:
// both outside (TensorFlow 1). `scaled`: ratio inside, lr outside (timm). They also differ in the norm that the ratio
// divides by: `separate` ||g|| + wd ||p||, `combined` ||g + wd p||, or that of the `update` (Model Garden's popular
// form).   class: LARS
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::lars {

enum class MomentumForm { classic, popular, scaled };
enum class TrustNorm { separate, combined, update };
struct Hyper {
  double lr = 1;                     // >= 0
  double momentum = 0.9;             // >= 0
  double weight_decay = 0;           // >= 0
  double trust_coefficient = 0.001;  // >= 0
  double eps = 0;                    // >= 0
};
struct Flags {
  bool nesterov = false;
  bool adapt = true;  // without it, trust ratio 1: for biases and normalization layers
  MomentumForm momentum_form = MomentumForm::classic;
  TrustNorm trust_norm = TrustNorm::separate;
};
// refuse: nesterov && momentum <= 0, Nesterov momentum requires a momentum
// refuse: trust_norm == update && momentum_form != popular, trust_norm = update requires momentum_form = popular
struct Slots {
  Signed m;  // torch: momentum_buffer
};
struct Scalars {
  real momentum, weight_decay, inside, outside;  // lr, inside and outside the momentum
  double lr, decay, trust_coefficient, eps;
};
struct Scales {
  real inside, outside;
};  // applied inside and outside the momentum
struct Trust {
  real step;
};  // lr times the trust ratio
struct Reductions {
  Sum<tensor, 2, Scales> scales;  // if adapt && trust_norm != update; update_state
  Sum<tensor, 2, Trust> trust;    // if adapt && trust_norm == update
};

template <Flags F>
struct Rule {
  static constexpr bool lr_inside = F.momentum_form == MomentumForm::classic;

  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.momentum = static_cast<real>(h.momentum);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.inside = static_cast<real>(lr_inside ? h.lr : 1.0);
    s.outside = static_cast<real>(lr_inside ? 1.0 : h.lr);
    s.lr = h.lr;
    s.decay = h.weight_decay;
    s.trust_coefficient = h.trust_coefficient;
    s.eps = h.eps;
    return s;
  }
  KHD static real decayed(const auto& e, const auto& c) {
    return formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static double ratio(double weights, double norm, double norms, const auto& c) {
    return weights == 0 || norm == 0 ? 1.0 : c.trust_coefficient * weights / (norms + c.eps);
  }

  KHD static Reals<2> terms(Of<Scales>, const auto& e, const auto& c) {
    const real g = F.trust_norm == TrustNorm::combined ? decayed(e, c) : e.g;
    return {e.p * e.p, g * g};
  }
  KHD static Scales finalize(Of<Scales>, const Totals<2>& sum, int64, const auto& c) {
    const double weights = sqrt(sum[0]), norm = sqrt(sum[1]);
    const bool separate = F.trust_norm == TrustNorm::separate;
    const double trust = ratio(weights, norm, separate ? norm + c.decay * weights : norm, c);
    const bool inside = F.momentum_form != MomentumForm::popular;
    return {static_cast<real>((inside ? trust : 1.0) * (lr_inside ? c.lr : 1.0)),
            static_cast<real>((inside ? 1.0 : trust) * (lr_inside ? 1.0 : c.lr))};
  }
  KHD static real gradient(const auto& e, const auto& c) {
    const bool scaled = F.adapt && F.trust_norm != TrustNorm::update;
    return (scaled ? c.scales.inside : c.inside) * decayed(e, c);
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.momentum, e.m.prev, gradient(e, c));
  }
  KHD static real update(const auto& e, const auto& c) {
    return F.nesterov ? fma(c.momentum, e.m.next, gradient(e, c)) : e.m.next;
  }

  KHD static Reals<2> terms(Of<Trust>, const auto& e, const auto& c) {
    const real u = update(e, c);
    return {e.p * e.p, u * u};
  }
  KHD static Trust finalize(Of<Trust>, const Totals<2>& sum, int64, const auto& c) {
    const double weights = sqrt(sum[0]), norm = sqrt(sum[1]);
    return {static_cast<real>(c.lr * ratio(weights, norm, norm, c))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real adapted = F.trust_norm == TrustNorm::update ? c.trust.step : c.scales.outside;
    e.p -= (F.adapt ? adapted : c.outside) * update(e, c);
  }
};

}  // namespace jitstep::rules::lars
