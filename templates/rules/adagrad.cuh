// Adagrad (Duchi, Hazan, Singer, JMLR 12, 2011), with coupled weight decay, as torch.optim.Adagrad. lr_decay lowers
// the learning rate with the step number.   class: Adagrad   initial state: at construction
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::adagrad {

struct Hyper {
  double lr = 1e-2;                      // >= 0
  double lr_decay = 0;                   // >= 0
  double weight_decay = 0;               // >= 0
  double initial_accumulator_value = 0;  // >= 0
  double eps = 1e-10;                    // >= 0
};
struct Slots {
  NonNegative v;  // torch: sum; initial: initial_accumulator_value
};
struct Scalars {
  real lr, weight_decay, eps;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.lr = static_cast<real>(h.lr / (1 + static_cast<double>(t - 1) * h.lr_decay));
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.eps = static_cast<real>(h.eps);
    return s;
  }
  KHD static real decayed(const auto& e, const auto& c) {
    return formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = decayed(e, c);
    e.v.next = fma(g, g, e.v.prev);
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * (decayed(e, c) / (sqrt(e.v.next) + c.eps));
  }
};

}  // namespace jitstep::rules::adagrad
