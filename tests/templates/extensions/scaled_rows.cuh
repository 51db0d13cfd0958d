// An update in each row's scale, with a form of update_param for ordinary operands.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::scaled_rows {

struct Hyper {
  double lr = 1e-2;  // >= 0
};
struct Slots {
  Signed m;
  NonNegative v;
};
struct Scalars {
  real lr, eps;
};
struct Row {
  real factor;
};
struct Reductions {
  Sum<rows, 1, Row> row;
};
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.eps = real(1e-6);
    return s;
  }
  KHD static void update_state(auto& e, const auto&) {
    e.m.next = fma(real(0.5), e.m.prev, e.g);
    e.v.next = fma(real(0.5), e.v.prev, e.g * e.g);
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(1 + 1 / (1 + sum[0]))};
  }
  static constexpr bool has_ordinary = true;
  KHD static bool is_ordinary(const auto&) { return true; }
  KHD static void include(const auto& e, auto& operands) {
    operands.include_radicand(e.v.next);
    operands.include_dividend(e.m.next);
  }
  template <class Arithmetic = Ieee>
  KHD static void update_param(auto& e, const auto& c) {
    const real size = Arithmetic::root(e.v.next) + c.eps;
    e.p = e.p - c.lr * c.row.factor * Arithmetic::quotient(e.m.next, size);
  }
};

}  // namespace jitstep::rules::scaled_rows
