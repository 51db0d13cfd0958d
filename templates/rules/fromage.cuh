// Fromage (arXiv 2002.03432): steps of a fixed relative size per tensor, as pytorch_optimizer. The division by
// sqrt(1 + lr^2) keeps the norm of the weights. With p_bound, the norm stays below that multiple of the initial
// norm.   class: Fromage
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::fromage {

struct Hyper {
  double lr = 1e-2;         // >= 0
  Nullable p_bound = null;  // >= 0
};
struct Flags {
  bool bounded = false;  // lifted: p_bound != null
};
struct AuxState {
  Entry<tensor, double> most;  // torch: max; if bounded; initial: -1
};
struct Scalars {
  double lr, shrink, bound;
};
struct Ratio {
  real step;
  double most;
};  // factor of the gradient, and the largest norm of the weights
struct Cap {
  real factor;
};
struct Reductions {
  Sum<tensor, 2, Ratio> ratio;
  Sum<tensor, 1, Cap> cap;  // if bounded; after: ratio
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    return {h.lr, 1 / sqrt(1 + h.lr * h.lr), h.p_bound.value};
  }
  KHD static Reals<2> terms(Of<Ratio>, const auto& e, const auto&) {
    return {e.p * e.p, e.g * e.g};
  }
  KHD static Ratio finalize(Of<Ratio>, const Totals<2>& sum, int64, const auto& c, AuxState& m) {
    const double weights = sqrt(sum[0]), gradient = sqrt(sum[1]);
    const double ratio = weights > 0 && gradient > 0 ? weights / gradient : 1.0;
    // Negative before the first step with a bound, which need not be step 1.
    if (F.bounded) m.most.next = m.most.prev < 0 ? c.bound * weights : m.most.prev;
    return {static_cast<real>(c.lr * ratio), F.bounded ? m.most.next : 0.0};
  }
  KHD static real moved(const auto& e, const auto& c) {
    return (e.p - c.ratio.step * e.g) * static_cast<real>(c.shrink);
  }
  KHD static Reals<1> terms(Of<Cap>, const auto& e, const auto& c) {
    const real p = moved(e, c);
    return {p * p};
  }
  KHD static Cap finalize(Of<Cap>, const Totals<1>& sum, int64, const auto& c) {
    const double norm = sqrt(sum[0]);
    return {static_cast<real>(norm > c.ratio.most ? c.ratio.most / norm : 1.0)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real p = moved(e, c);
    e.p = F.bounded ? p * c.cap.factor : p;
  }
};

}  // namespace jitstep::rules::fromage
