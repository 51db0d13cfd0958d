// Averaged stochastic gradient descent (Polyak and Juditsky, 1992), as torch.optim.ASGD. `ax` is the average of the
// parameters after step t0, for the program to read. A step uses the step size eta that the previous step computed, so
// a new lr takes effect one step late.   class: ASGD
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::asgd {

struct Hyper {
  double lr = 1e-2;         // >= 0
  double lambd = 1e-4;      // finite
  double alpha = 0.75;      // finite
  double t0 = 1e6;          // finite
  double weight_decay = 0;  // >= 0
};
struct Slots {
  Signed ax;  // codec: fp32
};
struct AuxState {
  Entry<tensor, double> eta;  // initial: lr
  Entry<tensor, double> mu;   // initial: 1
};
struct Scalars {
  real weight_decay, shrink, eta, mu;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    const double steps = static_cast<double>(t), eta = t == 1 ? h.lr : m.eta.prev;
    m.eta.next = h.lr / pow(1 + h.lambd * h.lr * steps, h.alpha);
    m.mu.next = 1 / max(1.0, steps - h.t0);
    Scalars s;
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - h.lambd * eta);
    s.eta = static_cast<real>(eta);
    s.mu = static_cast<real>(m.mu.prev);
    return s;
  }
  KHD static real stepped(const auto& e, const auto& c) {
    return e.p * c.shrink - c.eta * formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real p = stepped(e, c);
    e.ax.next = c.mu == 1 ? p : fma(c.mu, p - e.ax.prev, e.ax.prev);
  }
  KHD static void update_param(auto& e, const auto& c) { e.p = stepped(e, c); }
};

}  // namespace jitstep::rules::asgd
