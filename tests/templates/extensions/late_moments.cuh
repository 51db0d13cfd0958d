// A rule of the tests: sums, auxiliary state and a slot that read the result of a host transform.
// host transform: halved
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::late_moments {

struct Hyper {
  double lr = 0.1;    // >= 0
  double beta = 0.9;  // in [0, 1)
};
struct Slots {
  Signed m;
  NonNegative v;  // after: transformed
};
struct AuxState {
  Entry<rows> row;
};
struct Scalars {
  real lr, beta, fresh;
};
struct Size {
  real inverse;
};
struct Row {
  real mean;
};
struct Largest {
  real inverse;
};
struct Reductions {
  Sum<tensor, 1, Size> size;
  Sum<rows, 1, Row> row;            // after: transformed; update_state
  Max<tensor, 1, Largest> largest;  // after: row
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    return {static_cast<real>(h.lr), static_cast<real>(h.beta), static_cast<real>(1 - h.beta)};
  }
  KHD static void update_state(auto& e, const auto& c) { e.m.next = fma(c.beta, e.m.prev, e.g); }
  KHD static Reals<1> terms(Of<Size>, const auto& e, const auto&) { return {e.m.next * e.m.next}; }
  KHD static Size finalize(Of<Size>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(1 / (1 + sqrt(sum[0])))};
  }
  KHD static real transformed(const auto& e, const auto& c) { return e.m.next * c.size.inverse; }

  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) {
    return {e.transformed * e.transformed};
  }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, const auto& c, AuxState& m) {
    const double mean = sum[0] / static_cast<double>(count);
    m.row.next = static_cast<real>(c.beta * m.row.prev + c.fresh * mean);
    return {m.row.next};
  }
  KHD static void update_state_after(auto& e, const auto& c) {
    e.v.next = fma(c.beta, e.v.prev, c.fresh * fma(e.transformed, e.transformed, c.row.mean));
  }
  KHD static Reals<1> terms(Of<Largest>, const auto& e, const auto&) { return {sqrt(e.v.next)}; }
  KHD static Largest finalize(Of<Largest>, const Totals<1>& largest, int64, const auto&) {
    return {static_cast<real>(1 / (1e-3 + largest[0]))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * c.largest.inverse * e.transformed / (real(1e-3) + sqrt(e.v.next));
  }
};

}  // namespace jitstep::rules::late_moments
