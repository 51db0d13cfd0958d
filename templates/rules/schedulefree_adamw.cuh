// Schedule-free AdamW (arXiv 2405.15682), as schedulefree. The parameter is y, between the iterate z and its average x.
// Evaluation uses x. All tensors share the step count and the weights of the average, so all groups have the same lr,
// warm-up and powers. Use one optimizer for each lr.   class: ScheduleFreeAdamW
// modes: train, eval
#pragma once
#include "../formulas/decay.cuh"
#include "../formulas/schedule_free.cuh"

namespace jitstep::rules::schedulefree_adamw {

struct Hyper {
  double lr = 0.0025;               // >= 0; same in all groups
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0;          // >= 0
  double warmup_steps = 0;          // >= 0; same in all groups
  double r = 0;                     // finite; same in all groups
  double weight_lr_power = 2;       // finite; same in all groups
};
// refuse: betas[0] == 0, schedule-free steps need momentum, so betas[0] must be above 0
struct Slots {
  Signed z;       // codec: fp32
  NonNegative v;  // torch: exp_avg_sq
};
struct AuxState {
  Entry<all, double> weight_sum;
  Entry<all, double> lr_max;  // initial: -1
  Entry<all, double> k;
};
struct Scalars {
  real beta2, fresh2, eps, weight_decay, root_correction, rate, average, back, to_x, to_y;
  bool first;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    const formulas::ScheduleFree now = formulas::schedule_free(h, h.betas[0], m);
    Scalars s;
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.root_correction =
        static_cast<real>(sqrt(1 - power(h.betas[1], static_cast<int64>(m.k.next))));
    s.rate = now.rate;
    s.average = now.average;
    s.back = now.back;
    s.to_x = now.to_x;
    s.to_y = now.to_y;
    s.first = t == 1;
    return s;
  }
  KHD static real z(const auto& e, const auto& c) { return c.first ? e.p : e.z.prev; }
  KHD static real update(const auto& e, real v, const auto& c) {
    return formulas::decayed(c.weight_decay, e.p, e.g / (sqrt(v) / c.root_correction + c.eps));
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real v = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
    e.v.next = v;
    e.z.next = z(e, c) - c.rate * update(e, v, c);
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = fma(c.average, z(e, c) - e.p, e.p) + c.back * update(e, e.v.next, c);
  }
  KHD static void eval(auto& e, const auto& c) { e.p = fma(c.to_x, e.z.prev - e.p, e.p); }
  KHD static void train(auto& e, const auto& c) { e.p = fma(c.to_y, e.z.prev - e.p, e.p); }
};

}  // namespace jitstep::rules::schedulefree_adamw
