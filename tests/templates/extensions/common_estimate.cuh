// A rule of the tests: shared state that `prepare` updates (the number of steps) and that the first of two sums over
// all tensors updates. Other auxiliary state has a condition.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::common_estimate {

struct Hyper {
  double lr = 1e-2;  // >= 0
  double d0 = 0.5;   // > 0
};
struct Flags {
  bool slow = false;  // counts the steps of each tensor
};
struct Slots {
  Signed m;
};
struct AuxState {
  Entry<all, double> steps;
  Entry<all, double> d;       // torch: estimate; initial: d0
  Entry<tensor, double> own;  // if slow
  Entry<rows> row;            // if slow; initial: 1
};
struct Scalars {
  real step, fresh;
};
struct Estimate {
  real d;
};
struct Second {
  real share;
};
struct Row {
  real size;
};
struct Reductions {
  Sum<all, 2, Estimate> estimate;  // update_state
  Sum<all, 1, Second> second;      // after: estimate
  Sum<rows, 1, Row> row;           // if slow
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    m.steps.next = m.steps.prev + 1;
    if (F.slow) m.own.next = m.own.prev + 1 / static_cast<double>(t);
    Scalars s;
    s.step = static_cast<real>(h.lr * m.d.prev / sqrt(m.steps.next));
    s.fresh = static_cast<real>(F.slow ? 1 / (1 + m.own.next) : 0.25);
    return s;
  }
  KHD static Reals<2> terms(Of<Estimate>, const auto& e, const auto&) {
    return {abs(e.g), e.p * e.p};
  }
  KHD static Estimate finalize(Of<Estimate>, const Totals<2>& sum, int64 count, const auto&,
                             AuxState& m) {
    m.d.next =
        (m.d.prev + sum[0] / (1 + sum[1])) / 2 + m.steps.next / static_cast<double>(count + 1);
    return {static_cast<real>(m.d.next)};
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.fresh, e.g * c.estimate.d - e.m.prev, e.m.prev);
  }
  KHD static Reals<1> terms(Of<Second>, const auto& e, const auto&) { return {abs(e.m.next)}; }
  KHD static Second finalize(Of<Second>, const Totals<1>& sum, int64, const auto& c) {
    return {static_cast<real>(1 / (c.estimate.d + sum[0]))};
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {abs(e.p)}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.row.next = (m.row.prev + static_cast<real>(sum[0])) / 2;
    return {m.row.next};
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real size = F.slow ? 1 + c.row.size : real(1);
    e.p -= c.step * c.second.share * e.m.next / size;
  }
};

}  // namespace jitstep::rules::common_estimate
