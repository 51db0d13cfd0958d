// SM3 (arXiv 1901.11150): Adagrad with one accumulator per index of each dimension instead of one per element, as
// pytorch_optimizer. An element's second moment is the smallest of its accumulators, plus its squared gradient. An
// accumulator is the largest second moment of its elements. With beta, the second moment is an average.
// A scalar counts as a vector of one element.   class: SM3
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::sm3 {

struct Hyper {
  double lr = 0.1;      // >= 0
  double momentum = 0;  // in [0, 1)
  double beta = 0;      // in [0, 1]
  double eps = 1e-30;   // >= 0
};
struct Flags {
  bool has_momentum = false;  // lifted: momentum != 0
  bool averaged = false;      // lifted: beta != 0
  bool matrix = false;        // lifted: dims > 1
  bool volume = false;        // lifted: dims > 2
  bool more = false;          // lifted: dims > 3
};
// refuse: dims > 4, takes at most 4 dimensions. Reshape larger parameters, or give them to another optimizer
struct Slots {
  Signed m;  // torch: momentum_buffer; if has_momentum
};
struct AuxState {
  Entry<axis<0>> acc0;  // torch: accumulator_0; elements
  Entry<axis<1>> acc1;  // torch: accumulator_1; elements; if matrix
  Entry<axis<2>> acc2;  // torch: accumulator_2; elements; if volume
  Entry<axis<3>> acc3;  // torch: accumulator_3; elements; if more
};
struct Scalars {
  real lr, momentum, fresh, beta, fresh_square, eps;
};
struct Most0 {
  real size;
};
struct Most1 {
  real size;
};
struct Most2 {
  real size;
};
struct Most3 {
  real size;
};
struct Reductions {
  Max<axis<0>, 1, Most0> most0;
  Max<axis<1>, 1, Most1> most1;  // if matrix
  Max<axis<2>, 1, Most2> most2;  // if volume
  Max<axis<3>, 1, Most3> most3;  // if more
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.momentum);
    s.beta = static_cast<real>(F.averaged ? h.beta : 1.0);
    s.fresh_square = static_cast<real>(1 - h.beta);
    s.eps = static_cast<real>(h.eps);
    return s;
  }
  // The second moment of an element.
  KHD static real second(const auto& e, const auto& c) {
    real least = e.acc0.prev;
    if constexpr (F.matrix) least = min(e.acc1.prev, least);
    if constexpr (F.volume) least = min(e.acc2.prev, least);
    if constexpr (F.more) least = min(e.acc3.prev, least);
    return fma(c.fresh_square, e.g * e.g, c.beta * least);
  }
  KHD static real largest(double most, real prev) {
    const real now = static_cast<real>(most);
    return F.averaged ? maximum(prev, now) : now;
  }

  KHD static Reals<1> terms(Of<Most0>, const auto& e, const auto& c) { return {second(e, c)}; }
  KHD static Reals<1> terms(Of<Most1>, const auto& e, const auto& c) { return {second(e, c)}; }
  KHD static Reals<1> terms(Of<Most2>, const auto& e, const auto& c) { return {second(e, c)}; }
  KHD static Reals<1> terms(Of<Most3>, const auto& e, const auto& c) { return {second(e, c)}; }
  KHD static Most0 finalize(Of<Most0>, const Totals<1>& most, int64, const auto&, AuxState& m) {
    m.acc0.next = largest(most[0], m.acc0.prev);
    return {m.acc0.next};
  }
  KHD static Most1 finalize(Of<Most1>, const Totals<1>& most, int64, const auto&, AuxState& m) {
    m.acc1.next = largest(most[0], m.acc1.prev);
    return {m.acc1.next};
  }
  KHD static Most2 finalize(Of<Most2>, const Totals<1>& most, int64, const auto&, AuxState& m) {
    m.acc2.next = largest(most[0], m.acc2.prev);
    return {m.acc2.next};
  }
  KHD static Most3 finalize(Of<Most3>, const Totals<1>& most, int64, const auto&, AuxState& m) {
    m.acc3.next = largest(most[0], m.acc3.prev);
    return {m.acc3.next};
  }

  KHD static real update(const auto& e, const auto& c) { return e.g / sqrt(second(e, c) + c.eps); }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.momentum, e.m.prev, c.fresh * update(e, c));
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * (F.has_momentum ? e.m.next : update(e, c));
  }
};

}  // namespace jitstep::rules::sm3
