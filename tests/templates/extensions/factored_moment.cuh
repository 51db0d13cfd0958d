// A rule of the tests: a second moment stored as row and column means, as in Adafactor, with update clipping. Reduces
// rows, columns, the row entries of each matrix, then the tensor.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::factored_moment {

struct Hyper {
  double lr = 1e-2;    // >= 0
  double decay = 0.9;  // in [0, 1)
};
struct Scalars {
  real lr, decay, fresh;
};
struct Row {
  real mean;
};
struct Column {
  real mean;
};
struct Matrix {
  real mean;
};
struct Update {
  real factor;
};
struct Reductions {
  Sum<rows, 1, Row> row;
  Sum<columns, 1, Column> column;
  Sum<matrices, 1, Matrix, Entries<rows, Row>> matrix;
  Sum<tensor, 1, Update> update;  // after: row, column, matrix
};
struct AuxState {
  Entry<rows> row;        // torch: row_var
  Entry<columns> column;  // torch: col_var; initial: 0.5
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.decay = static_cast<real>(h.decay);
    s.fresh = static_cast<real>(1 - h.decay);
    return s;
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Reals<1> terms(Of<Column>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Reals<1> terms(Of<Matrix>, const Row& row, const auto&) { return {row.mean}; }
  KHD static Reals<1> terms(Of<Update>, const auto& e, const auto& c) {
    const real u = update(e, c);
    return {u * u};
  }
  KHD static real mean(const Totals<1>& sum, int64 count) {
    return static_cast<real>(sum[0] / static_cast<double>(count));
  }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, const auto& c, AuxState& m) {
    m.row.next = fma(c.decay, m.row.prev, c.fresh * mean(sum, count));
    return {m.row.next};
  }
  KHD static Column finalize(Of<Column>, const Totals<1>& sum, int64 count, const auto& c,
                           AuxState& m) {
    m.column.next = fma(c.decay, m.column.prev, c.fresh * mean(sum, count));
    return {m.column.next};
  }
  KHD static Matrix finalize(Of<Matrix>, const Totals<1>& sum, int64 count, const auto&, AuxState&) {
    return {max(mean(sum, count), static_cast<real>(1e-30))};
  }
  KHD static Update finalize(Of<Update>, const Totals<1>& sum, int64 count, const auto&, AuxState&) {
    const double rms = sqrt(sum[0] / static_cast<double>(count));
    return {static_cast<real>(rms > 1 ? 1 / rms : 1.0)};
  }
  KHD static real update(const auto& e, const auto& c) {
    const real v = c.row.mean * c.column.mean / c.matrix.mean;
    return e.g / (sqrt(v) + static_cast<real>(1e-8));
  }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * c.update.factor * update(e, c); }
};

}  // namespace jitstep::rules::factored_moment
