// Adam (arXiv 1412.6980), with coupled weight decay and AMSGrad, as torch.optim.Adam.   class: Adam
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::adam {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0;          // >= 0
};
struct Flags {
  bool amsgrad = false;
};
struct Slots {
  Signed m;          // torch: exp_avg
  NonNegative v;     // torch: exp_avg_sq
  NonNegative vmax;  // torch: max_exp_avg_sq; if amsgrad
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, weight_decay, step_size, root_correction;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = formulas::decayed(c.weight_decay, e.p, e.g);
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (g * g));
    if (F.amsgrad) e.vmax.next = maximum(e.vmax.prev, e.v.next);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real v = F.amsgrad ? e.vmax.next : e.v.next;
    e.p -= c.step_size * (e.m.next / (sqrt(v) / c.root_correction + c.eps));
  }
};

}  // namespace jitstep::rules::adam
