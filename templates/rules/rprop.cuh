// Rprop (Riedmiller and Braun, 1993), as torch.optim.Rprop: each element has its own step size. The step size grows
// while the gradient has the same sign. Where the sign changes, it shrinks and the element does not move. `lr` is the
// initial step size, with an effect in step 1 only. A NaN gradient makes its element NaN, where torch treats its sign
// as 0.   class: Rprop
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::rprop {

struct Hyper {
  double lr = 1e-2;                    // >= 0
  Numbers<2> etas = {0.5, 1.2};        // > 0
  Numbers<2> step_sizes = {1e-6, 50};  // >= 0; minimum and maximum
};
// refuse: etas[0] >= 1 || etas[1] <= 1, etas must be a factor below 1 and a factor above 1
struct Slots {
  Signed prev;            // codec: fp32
  NonNegative step_size;  // initial: lr
};
struct Scalars {
  real shrink, accumulate, smallest, largest;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.shrink = static_cast<real>(h.etas[0]);
    s.accumulate = static_cast<real>(h.etas[1]);
    s.smallest = static_cast<real>(h.step_sizes[0]);
    s.largest = static_cast<real>(h.step_sizes[1]);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real same = e.g * e.prev.prev;
    const real factor = same > 0 ? c.accumulate : same < 0 ? c.shrink : real(1);
    e.step_size.next = min(max(e.step_size.prev * factor, c.smallest), c.largest);
    e.prev.next = same < 0 ? real(0) : e.g;
  }
  KHD static void update_param(auto& e, const auto&) {
    e.p -= sign(e.prev.next) * e.step_size.next;
  }
};

}  // namespace jitstep::rules::rprop
