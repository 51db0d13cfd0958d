// A rule of the tests: a chain of two sums, over all tensors and then over each index of dimension 0. `update_state`
// reads both. A sum and `prepare` update auxiliary state per tensor.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::layer_norms {

struct Hyper {
  double lr = 1e-2;   // >= 0
  double beta = 0.9;  // in [0, 1)
};
struct Flags {
  bool smooth = true;
};
struct Slots {
  Signed m;
};
struct Scalars {
  real lr, beta, fresh, product;
};
struct Everything {
  real scale;
};
struct Layer {
  real scale;
};
struct Largest {
  real inverse;
};
struct Reductions {
  Sum<all, 2, Everything> everything;  // update_state
  Sum<first, 1, Layer> layer;          // after: everything; update_state
  Max<tensor, 1, Largest> largest;     // after: layer
};
struct AuxState {
  Entry<tensor> smoothed;         // initial: 1
  Entry<tensor, double> product;  // initial: 1
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, AuxState& m) {
    m.product.next = m.product.prev * (1 - power(h.beta, t) / 2);
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.beta = static_cast<real>(h.beta);
    s.fresh = static_cast<real>(1 - h.beta);
    s.product = static_cast<real>(m.product.next);
    return s;
  }
  KHD static Reals<2> terms(Of<Everything>, const auto& e, const auto&) {
    return {e.g * e.g, e.p * e.p};
  }
  KHD static Everything finalize(Of<Everything>, const Totals<2>& sum, int64 count, const auto&) {
    return {static_cast<real>(1 / (1 + sqrt((sum[0] + sum[1]) / static_cast<double>(count))))};
  }
  KHD static Reals<1> terms(Of<Layer>, const auto& e, const auto& c) {
    return {abs(e.g * c.everything.scale)};
  }
  KHD static Layer finalize(Of<Layer>, const Totals<1>& sum, int64 count, const auto&) {
    return {static_cast<real>(1 + sum[0] / static_cast<double>(count))};
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta, e.m.prev, c.fresh * (e.g * c.everything.scale / c.layer.scale));
  }
  KHD static Reals<1> terms(Of<Largest>, const auto& e, const auto&) { return {abs(e.m.next)}; }
  KHD static Largest finalize(Of<Largest>, const Totals<1>& largest, int64, const auto& c,
                            AuxState& m) {
    const real now = static_cast<real>(largest[0]);
    m.smoothed.next = F.smooth ? fma(c.beta, m.smoothed.prev, c.fresh * now) : now;
    return {1 / (m.smoothed.next + static_cast<real>(1e-6))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * c.product * e.m.next * c.largest.inverse;
  }
};

}  // namespace jitstep::rules::layer_norms
