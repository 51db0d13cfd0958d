// Descent with a step size d that grows during training, one number per tensor and one per row. It shows
// auxiliary state, and is not an optimizer to use.   class: Damped
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::damped {

struct Hyper {
  double lr = 1e-2;      // >= 0
  double d0 = 1e-3;      // > 0
  double damping = 0.9;  // in [0, 1]
};
struct Flags {
  bool damped = false;
};
struct Scalars {
  real step;
};
struct Estimate {
  real d;
};
struct Largest {
  real value;
};
struct AuxState {
  Entry<all, double> d;  // torch: d; initial: d0
  Entry<all, double> k;
  Entry<tensor, double> q;  // initial: 1; if damped
  Entry<rows> largest;
};
struct Reductions {
  Sum<all, 2, Estimate> estimate;
  Max<rows, 1, Largest> row;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    m.k.next = m.k.prev + 1;                        // of `all`: once per step, whatever a tensor's t is
    if (F.damped) m.q.next = m.q.prev * h.damping;  // of a tensor: once in each of its steps
    Scalars s;
    s.step = static_cast<real>(h.lr * m.d.prev);  // d as the last step left it
    return s;
  }
  KHD static Estimate finalize(Of<Estimate>, const Totals<2>& sum, int64, const auto&, AuxState& m) {
    m.d.next = max(m.d.prev, sum[0] / sum[1]);
    return {static_cast<real>(m.d.next)};  // for later passes and `update_param`
  }
  KHD static Largest finalize(Of<Largest>, const Totals<1>& max_of, int64, const auto&, AuxState& m) {
    m.largest.next = max(m.largest.prev, static_cast<real>(max_of[0]));
    return {m.largest.next};
  }
  KHD static Reals<2> terms(Of<Estimate>, const auto& e, const auto&) { return {e.g * e.g, 1}; }
  KHD static Reals<1> terms(Of<Largest>, const auto& e, const auto&) { return {abs(e.g)}; }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.step * e.g / (c.row.value + real(1e-6));
  }
};

}  // namespace jitstep::rules::damped
