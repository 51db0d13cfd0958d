// AdamW (arXiv 1711.05101): Adam with decoupled weight decay, as torch.optim.AdamW. `decay` selects when p shrinks:
// `before` the update by 1 - lr wd (torch), `after` it (bitsandbytes), or before it by 1 - lr wd / (1 - beta1^t), named
// `step_size` (torchastic). caution, corrected_weight_decay and clipping_threshold are timm's. The threshold limits
// the root mean square of the update (arXiv 2304.13013).   class: AdamW
#pragma once
#include "../formulas/caution.cuh"
#include "../formulas/decay.cuh"

namespace jitstep::rules::adamw {

enum class Decay { before, after, step_size };
struct Hyper {
  double lr = 1e-3;                    // >= 0
  Numbers<2> betas = {0.9, 0.999};     // in [0, 1)
  double eps = 1e-8;                   // >= 0
  double weight_decay = 1e-2;          // >= 0
  Nullable clipping_threshold = null;  // > 0
  Nullable initial_lr = null;          // >= 0; at construction: lr
};
struct Flags {
  bool amsgrad = false;
  Decay decay = Decay::before;
  bool caution = false;
  bool corrected_weight_decay = false;
  bool clipped = false;  // lifted: clipping_threshold != null
};
struct Slots {
  Signed m;          // torch: exp_avg
  NonNegative v;     // torch: exp_avg_sq
  NonNegative vmax;  // torch: max_exp_avg_sq; if amsgrad
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, shrink, step_size, root_correction;
  double clipping_threshold;
};
struct Caution {
  real scale;
};
struct Clip {
  real factor;
};
struct Reductions {
  Sum<tensor, 1, Caution> agreeing;  // if caution
  Sum<tensor, 1, Clip> clip;         // if clipped
};

template <Flags F>
struct Rule {
  static constexpr bool centralizes_vectors = F.decay == Decay::step_size;  // as in torchastic

  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double correction = 1 - power(h.betas[0], t);
    const double rate = formulas::decay_rate(F.corrected_weight_decay, h.lr, h.initial_lr);
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.shrink = static_cast<real>(1 - (F.decay == Decay::step_size ? rate / correction : rate) *
                                         h.weight_decay);
    s.step_size = static_cast<real>(h.lr / correction);
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    s.clipping_threshold = h.clipping_threshold.value;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
    if (F.amsgrad) e.vmax.next = maximum(e.vmax.prev, e.v.next);
  }
  template <class Arithmetic = Ieee>
  KHD static real denominator(const auto& e, const auto& c) {
    const real v = F.amsgrad ? e.vmax.next : e.v.next;
    return Arithmetic::quotient(Arithmetic::root(v), c.root_correction) + c.eps;
  }
  KHD static Reals<1> terms(Of<Caution>, const auto& e, const auto&) {
    return {formulas::agreement(e.m.next, e.g)};
  }
  KHD static Caution finalize(Of<Caution>, const Totals<1>& sum, int64 count, const auto&) {
    return {formulas::caution_scale(sum, count)};
  }
  KHD static Reals<1> terms(Of<Clip>, const auto& e, const auto& c) {
    const real size = e.g / denominator(e, c);
    return {size * size};
  }
  KHD static Clip finalize(Of<Clip>, const Totals<1>& sum, int64 count, const auto& c) {
    const double rms = sqrt(sum[0] / static_cast<double>(count));
    return {static_cast<real>(max(1.0, rms / c.clipping_threshold))};
  }
  // update_param may use Ordinary arithmetic if these operands and factors are ordinary. Then the denominator is in
  // [2^-64, 2^25], and both quotients are 0 or normal numbers.
  static constexpr bool has_ordinary = !F.caution && !F.clipped;
  KHD static bool is_ordinary(const auto& c) {
    return c.root_correction >= 0x1p-12f && c.root_correction <= 1 && c.eps >= 0x1p-64f &&
           c.eps <= 0x1p24f;
  }
  KHD static void include(const auto& e, auto& operands) {
    operands.include_radicand(F.amsgrad ? e.vmax.next : e.v.next);
    operands.include_dividend(e.m.next);
  }
  template <class Arithmetic = Ieee>
  KHD static void update_param(auto& e, const auto& c) {
    real m = e.m.next, size = denominator<Arithmetic>(e, c);
    if (F.caution) m = formulas::cautious(m, e.g, c.agreeing.scale);
    if (F.clipped) size *= c.clip.factor;
    const real update = c.step_size * Arithmetic::quotient(m, size);
    e.p = F.decay == Decay::after ? (e.p - update) * c.shrink : e.p * c.shrink - update;
  }
};

}  // namespace jitstep::rules::adamw
