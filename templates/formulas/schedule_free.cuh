// What schedule-free rules share, arXiv 2405.15682 as schedulefree has it: a step of the sequence z, and how
// the parameter y follows z and its weighted average.
#pragma once
#include "../core/contract.cuh"

namespace jitstep::formulas {

struct ScheduleFree {
  real rate;        // of z's step
  real average;     // the share of z in the average that is new
  real back;        // y's part of the update, less than zero
  real to_x, to_y;  // the way from the parameter towards z that leads from one point to the other
};

// Advances the memory of all tensors. beta: how near y is to the average.
KHD ScheduleFree schedule_free(const auto& h, double beta, auto& m) {
  const double k = m.k.was + 1;
  const double rate = k <= h.warmup_steps ? h.lr * k / h.warmup_steps : h.lr;
  m.k.next = k;
  m.lr_max.next = max(m.lr_max.was, rate);
  const double weight = pow(k, h.r) * pow(m.lr_max.next, h.weight_lr_power);
  m.weight_sum.next = m.weight_sum.was + weight;
  const double share = m.weight_sum.next == 0 ? 0.0 : weight / m.weight_sum.next;
  return {static_cast<real>(rate), static_cast<real>(share),
          static_cast<real>(rate * (beta * (1 - share) - 1)), static_cast<real>(1 - 1 / beta),
          static_cast<real>(1 - beta)};
}

}  // namespace jitstep::formulas
