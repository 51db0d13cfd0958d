// A second moment stored as row and column means only, as lpmm's 4-bit Factor (arXiv 2309.01507) and Adafactor.
// For matrices (a tensor's last two dimensions), the value of an element is its row's mean times its column's mean,
// divided by the matrix's mean. The rule computes with new values as they are stored. Values that are not finite add
// nothing to a mean.
// vectors: int4
// signed: int4
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::factored {

using Code = NoCode;
struct Row {
  real mean;
};
struct Column {
  real mean;
};
struct Matrix {
  real inverse;
};  // 1 / the mean of the rows
struct Reductions {
  Sum<rows, 1, Row> of_row;
  Sum<columns, 1, Column> of_column;
  Sum<matrices, 1, Matrix, Entries<rows, Row>> of_rows;
};
struct AuxState {
  Entry<rows> row;
  Entry<columns> col;
  Entry<matrices> inverse;
};

template <class Sign>
struct Codec {
  using Code = NoCode;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = false;

  KHD static Reals<1> terms(Of<Row>, real x) { return {is_finite(x) ? x : real(0)}; }
  KHD static Reals<1> terms(Of<Column>, real x) { return {is_finite(x) ? x : real(0)}; }
  KHD static Reals<1> terms(Of<Matrix>, const Row& row) { return {row.mean}; }

  KHD static double mean(const Totals<1>& sum, int64 count) {
    return sum[0] / static_cast<double>(count);
  }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, AuxState& m) {
    return {m.row.next = static_cast<real>(mean(sum, count))};
  }
  KHD static Column finalize(Of<Column>, const Totals<1>& sum, int64 count, AuxState& m) {
    return {m.col.next = static_cast<real>(mean(sum, count))};
  }
  // The mean is at least the smallest normal number, because the inverse of a smaller one could be infinite.
  KHD static Matrix finalize(Of<Matrix>, const Totals<1>& sum, int64 count, AuxState& m) {
    const double least = kSame<real, float> ? 0x1p-126 : 0x1p-1022;
    return {m.inverse.next = static_cast<real>(1 / max(least, mean(sum, count)))};
  }

  KHD static real decode(Code, const Meta&, const AuxState& m) {
    return m.row.prev * m.inverse.prev * m.col.prev;
  }
};

}  // namespace jitstep::codecs::factored
