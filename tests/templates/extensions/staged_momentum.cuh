// A rule of the tests: momentum, normalized by the gradient's norm, goes through a host transform. The rule combines it
// with the result.
// host transform: halved
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::staged_momentum {

struct Hyper {
  double lr = 0.1;    // >= 0
  double beta = 0.9;  // in [0, 1)
};
struct Slots {
  Signed m;
};
struct Scalars {
  real lr, beta;
};
struct Norm {
  real inverse;
};
struct Reductions {
  Sum<tensor, 1, Norm> norm;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    return {static_cast<real>(h.lr), static_cast<real>(h.beta)};
  }
  KHD static Reals<1> terms(Of<Norm>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(1 / (1 + sqrt(sum[0])))};
  }
  KHD static void update_state(auto& e, const auto& c) { e.m.next = fma(c.beta, e.m.prev, e.g); }
  KHD static real transformed(const auto& e, const auto& c) { return e.m.next * c.norm.inverse; }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * fma(e.m.next, c.norm.inverse, e.transformed);
  }
};

}  // namespace jitstep::rules::staged_momentum
