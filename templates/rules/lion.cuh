// Lion (arXiv 2302.06675): the sign of an average of gradients, with decoupled weight decay, as lion-pytorch and
// timm. caution and corrected_weight_decay are timm's. A NaN gradient makes its element NaN, where torch.sign gives
// 0.   class: Lion
#pragma once
#include "../formulas/caution.cuh"
#include "../formulas/decay.cuh"

namespace jitstep::rules::lion {

struct Hyper {
  double lr = 1e-4;                // >= 0
  Numbers<2> betas = {0.9, 0.99};  // in [0, 1)
  double weight_decay = 0;         // >= 0
  Nullable initial_lr = null;      // >= 0; at construction: lr
};
struct Flags {
  bool caution = false;
  bool corrected_weight_decay = false;
};
struct Slots {
  Signed m;  // torch: exp_avg
};
struct Scalars {
  real lr, beta1, fresh1, beta2, fresh2, shrink;
};
struct Caution {
  real scale;
};
struct Reductions {
  Sum<tensor, 1, Caution> agreeing;  // if caution
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    const double decay_rate = formulas::decay_rate(F.corrected_weight_decay, h.lr, h.initial_lr);
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.shrink = static_cast<real>(1 - decay_rate * h.weight_decay);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta2, e.m.prev, c.fresh2 * e.g);
  }
  KHD static real update(const auto& e, const auto& c) {
    return sign(fma(c.beta1, e.m.prev, c.fresh1 * e.g));
  }
  KHD static Reals<1> terms(Of<Caution>, const auto& e, const auto& c) {
    return {formulas::agreement(update(e, c), e.g)};
  }
  KHD static Caution finalize(Of<Caution>, const Totals<1>& sum, int64 count, const auto&) {
    return {formulas::caution_scale(sum, count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    real u = update(e, c);
    if (F.caution) u = formulas::cautious(u, e.g, c.agreeing.scale);
    e.p = e.p * c.shrink - c.lr * u;
  }
};

}  // namespace jitstep::rules::lion
