// A rule of the tests: only every slice-th element has momentum. Sums over columns, rows and the tensor weight elements
// by their number.
// modes: train, eval
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::numbered_elements {

struct Hyper {
  double lr = 0.1;   // >= 0
  double slice = 3;  // integer; >= 1
};
struct Slots {
  Signed m;
};
struct Scalars {
  real lr;
  int64 slice;
};
struct Column {
  real mean;
};
struct Row {
  real mean;
};
struct Whole {
  real mean;
};
struct Reductions {
  Sum<columns, 1, Column> column;
  Sum<rows, 1, Row> row;
  Sum<tensor, 1, Whole> whole;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    return {static_cast<real>(h.lr), static_cast<int64>(h.slice)};
  }
  KHD static bool in_slice(const auto& e, const auto& c) { return e.index % c.slice == 0; }
  KHD static real weighted(const auto& e) { return e.g * static_cast<real>(e.index % 7); }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = in_slice(e, c) ? fma(real(0.9), e.m.prev, e.g) : e.g;
  }
  KHD static Reals<1> terms(Of<Column>, const auto& e, const auto&) { return {weighted(e)}; }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {weighted(e)}; }
  KHD static Reals<1> terms(Of<Whole>, const auto& e, const auto&) { return {weighted(e)}; }
  KHD static real mean(const auto& sum, int64 count) {
    return static_cast<real>(sum[0] / static_cast<double>(count));
  }
  KHD static Column finalize(Of<Column>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static Whole finalize(Of<Whole>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * (e.m.next + c.column.mean - c.row.mean + c.whole.mean);
  }
  KHD static void eval(auto& e, const auto& c) {
    if (in_slice(e, c)) e.p -= c.lr * e.m.prev;
  }
  KHD static void train(auto& e, const auto& c) {
    if (in_slice(e, c)) e.p += c.lr * e.m.prev;
  }
};

}  // namespace jitstep::rules::numbered_elements
