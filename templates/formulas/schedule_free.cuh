// Shared by schedule-free rules (arXiv 2405.15682, as schedulefree): a step of the iterate z, and how the parameter y
// follows z and its weighted average x.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::formulas {

struct ScheduleFree {
  real rate;        // step size of z
  real average;     // weight of the new z in the average
  real back;        // factor of the update in y, negative
  real to_x, to_y;  // interpolation from the parameter towards z that gives the other point
};

// Advances the shared state. beta: how close y is to the average.
KHD ScheduleFree schedule_free(const auto& h, double beta, auto& m) {
  const double k = m.k.prev + 1;
  const double rate = m.k.prev < h.warmup_steps ? h.lr * k / h.warmup_steps : h.lr;
  m.k.next = k;
  m.lr_max.next = max(m.lr_max.prev, rate);
  const double weight = pow(k, h.r) * pow(m.lr_max.next, h.weight_lr_power);
  m.weight_sum.next = m.weight_sum.prev + weight;
  const double share = m.weight_sum.next == 0 ? 0.0 : weight / m.weight_sum.next;
  return {static_cast<real>(rate), static_cast<real>(share),
          static_cast<real>(rate * (beta * (1 - share) - 1)), static_cast<real>(1 - 1 / beta),
          static_cast<real>(1 - beta)};
}

}  // namespace jitstep::formulas
