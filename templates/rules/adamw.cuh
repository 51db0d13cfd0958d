// AdamW, arXiv 1711.05101: Adam with decoupled weight decay, as torch.optim.AdamW. `decay` says where
// p shrinks: `before` the update by 1 - lr wd (torch), `after` it (bitsandbytes), or before it by
// 1 - lr wd / (1 - beta1^t), the `step_size` (torchastic).   class: AdamW
#pragma once
#include "../core/contract.cuh"

namespace jitstep::rules::adamw {

enum class Decay { before, after, step_size };
struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 1e-2;       // >= 0
};
struct Flags {
  bool amsgrad = false;
  Decay decay = Decay::before;
};
struct Slots {
  Signed m;          // torch: exp_avg
  NonNegative v;     // torch: exp_avg_sq
  NonNegative vmax;  // torch: max_exp_avg_sq; if amsgrad
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, shrink, step_size, root_correction;
};

template <Flags F>
struct Rule {
  static constexpr bool centralizes_vectors = F.decay == Decay::step_size;  // as torchastic does

  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double step_size = h.lr / (1 - power(h.betas[0], t));
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.shrink =
        static_cast<real>(1 - (F.decay == Decay::step_size ? step_size : h.lr) * h.weight_decay);
    s.step_size = static_cast<real>(step_size);
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    return s;
  }
  KHD static void moments(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.was, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.was, c.fresh2 * (e.g * e.g));
    if (F.amsgrad) e.vmax.next = maximum(e.vmax.was, e.v.next);
  }
  KHD static void apply(auto& e, const auto& c) {
    const real v = F.amsgrad ? e.vmax.next : e.v.next;
    const real update = c.step_size * (e.m.next / (sqrt(v) / c.root_correction + c.eps));
    e.p = F.decay == Decay::after ? (e.p - update) * c.shrink : e.p * c.shrink - update;
  }
};

}  // namespace jitstep::rules::adamw
