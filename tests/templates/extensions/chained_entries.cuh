// A rule of the tests: every kind of chained reduction. A sum over all tensors after another one, and sums over entries
// of sums over entries: rows, then matrices, then the tensor.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::chained_entries {

struct Hyper {
  double lr = 1e-2;  // >= 0
};
struct Scalars {
  real lr;
};
struct Size {
  real rms;
};
struct Scaled {
  real mean;
};
struct Row {
  real mean;
};
struct Matrix {
  real mean;
};
struct Whole {
  real mean;
};
struct Reductions {
  Sum<all, 1, Size> size;
  Sum<all, 1, Scaled> scaled;  // after: size
  Sum<rows, 1, Row> row;
  Sum<matrices, 1, Matrix, Entries<rows, Row>> matrix;
  Sum<tensor, 1, Whole, Entries<matrices, Matrix>> whole;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static real mean(const Totals<1>& sum, int64 count) {
    return static_cast<real>(sum[0] / static_cast<double>(count));
  }
  KHD static Reals<1> terms(Of<Size>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Size finalize(Of<Size>, const Totals<1>& sum, int64 count, const auto&) {
    return {1 + sqrt(mean(sum, count))};
  }
  KHD static Reals<1> terms(Of<Scaled>, const auto& e, const auto& c) { return {e.g / c.size.rms}; }
  KHD static Scaled finalize(Of<Scaled>, const Totals<1>& sum, int64 count, const auto& c) {
    return {mean(sum, count) * c.size.rms};  // the mean of g, if c.size is the earlier sum's
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static Reals<1> terms(Of<Matrix>, const Row& row, const auto&) { return {row.mean}; }
  KHD static Matrix finalize(Of<Matrix>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static Reals<1> terms(Of<Whole>, const Matrix& matrix, const auto&) { return {matrix.mean}; }
  KHD static Whole finalize(Of<Whole>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.lr * (e.g + c.whole.mean + c.matrix.mean + c.scaled.mean);
  }
};

}  // namespace jitstep::rules::chained_entries
