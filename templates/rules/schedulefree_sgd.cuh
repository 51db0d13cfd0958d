// Schedule-free SGD (arXiv 2405.15682), as schedulefree. The parameter is y, between the iterate z and its average x.
// Evaluation uses x. All tensors share the step count and the weights of the average, so all groups have the same lr,
// warm-up and powers. Use one optimizer for each lr.   class: ScheduleFreeSGD
// modes: train, eval
#pragma once
#include "../formulas/decay.cuh"
#include "../formulas/schedule_free.cuh"

namespace jitstep::rules::schedulefree_sgd {

struct Hyper {
  double lr = 1;               // >= 0; same in all groups
  double momentum = 0.9;       // in (0, 1)
  double weight_decay = 0;     // >= 0
  double warmup_steps = 0;     // >= 0; same in all groups
  double r = 0;                // finite; same in all groups
  double weight_lr_power = 2;  // finite; same in all groups
};
struct Slots {
  Signed z;  // codec: fp32
};
struct AuxState {
  Entry<all, double> weight_sum;
  Entry<all, double> lr_max;  // initial: -1
  Entry<all, double> k;
};
struct Scalars {
  real weight_decay, rate, average, back, to_x, to_y;
  bool first;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    const formulas::ScheduleFree now = formulas::schedule_free(h, h.momentum, m);
    return {static_cast<real>(h.weight_decay),
            now.rate,
            now.average,
            now.back,
            now.to_x,
            now.to_y,
            t == 1};
  }
  KHD static real z(const auto& e, const auto& c) { return c.first ? e.p : e.z.prev; }
  KHD static real update(const auto& e, const auto& c) {
    return formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.z.next = z(e, c) - c.rate * update(e, c);
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = fma(c.average, z(e, c) - e.p, e.p) + c.back * update(e, c);
  }
  KHD static void eval(auto& e, const auto& c) { e.p = fma(c.to_x, e.z.prev - e.p, e.p); }
  KHD static void train(auto& e, const auto& c) { e.p = fma(c.to_y, e.z.prev - e.p, e.p); }
};

}  // namespace jitstep::rules::schedulefree_sgd
