// Lookahead (arXiv 1907.08610) around AdamW: every k steps a parameter returns to a point between its slow copy and itself,
// as pytorch_optimizer's Lookahead of torch.optim.AdamW. The slow copy gets that point in the next step.
// class: LookaheadAdamW
#pragma once
#include "../formulas/lookahead.cuh"

namespace jitstep::rules::lookahead_adamw {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 1e-2;       // >= 0
  double k = 5;                     // integer; >= 1; steps between two returns, constant during training
  double alpha = 0.5;               // in [0, 1]; 0: returns to the slow copy
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
  Signed slow;    // torch: slow_params; codec: fp32
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, shrink, step_size, root_correction;
  formulas::Lookahead ahead;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    s.ahead = formulas::lookahead(h.k, h.alpha, t);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
    e.slow.next = formulas::slow_copy(e.p, e.slow.prev, c.ahead);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real size = sqrt(e.v.next) / c.root_correction + c.eps;
    const real fast = e.p * c.shrink - c.step_size * (e.m.next / size);
    e.p = formulas::merged(fast, e.slow.next, c.ahead);
  }
};

}  // namespace jitstep::rules::lookahead_adamw
