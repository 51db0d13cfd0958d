// A rule of the tests. z descends, eval mode uses the average x of all z, and during training the parameter lies
// between the two (y). `prepare` counts steps for the average's weight.
// modes: train, eval
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::averaged_iterate {

struct Hyper {
  double lr = 0.1;    // >= 0
  double beta = 0.9;  // in (0, 1)
};
struct Slots {
  Signed z;
};
struct Scalars {
  real lr, beta, weight, to_x, to_y;
  bool first;
};
struct AuxState {
  Entry<tensor, double> steps;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    m.steps.next = m.steps.prev + 1;
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.beta = static_cast<real>(h.beta);
    s.weight = static_cast<real>(1 / m.steps.next);
    s.to_x = static_cast<real>(1 - 1 / h.beta);
    s.to_y = static_cast<real>(1 - h.beta);
    s.first = t == 1;
    return s;
  }
  KHD static real start(const auto& e, const auto& c) { return c.first ? e.p : e.z.prev; }
  KHD static void update_state(auto& e, const auto& c) { e.z.next = start(e, c) - c.lr * e.g; }
  KHD static void update_param(auto& e, const auto& c) {
    const real y = fma(c.weight, start(e, c) - e.p, e.p);
    e.p = y + c.lr * (c.beta * (1 - c.weight) - 1) * e.g;
  }
  KHD static void eval(auto& e, const auto& c) { e.p = fma(c.to_x, e.z.prev - e.p, e.p); }
  KHD static void train(auto& e, const auto& c) { e.p = fma(c.to_y, e.z.prev - e.p, e.p); }
};

}  // namespace jitstep::rules::averaged_iterate
