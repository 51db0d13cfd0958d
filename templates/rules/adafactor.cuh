// Adafactor (arXiv 1804.04235), as torch.optim.Adafactor. The second moment of a matrix (a tensor's last two
// dimensions) is the product of its row and column means. A vector has a full second moment. The step size is
// relative to the parameter's root mean square. `d` limits the update's root mean square. If eps[0] is null, it is
// the machine epsilon of the parameter's dtype: 2^-7 for bfloat16, 2^-10 for float16.   class: Adafactor
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::adafactor {

struct Hyper {
  double lr = 1e-2;               // >= 0
  double beta2_decay = -0.8;      // <= 0; weight of a step's squares: t to this power
  Numbers<2> eps = {null, 1e-3};  // >= 0; floors of sqrt(v) (null: machine epsilon) and of rms(p)
  double d = 1;                   // >= 1; largest root mean square of an update
  double weight_decay = 0;        // >= 0
};
struct Flags {
  bool factored = false;  // lifted: dims > 1
};
struct Slots {
  NonNegative v;  // torch: variance; if !factored
};
struct AuxState {
  Entry<rows> row;     // torch: row_var; if factored
  Entry<columns> col;  // torch: col_var; if factored
};
struct Scalars {
  real keep, fresh, floor, shrink;
  double weight, row_floor, rate, smallest, d;
};
struct Row {
  real mean;
};
struct Column {
  real mean;
};
struct Matrix {
  real inverse;
};  // 1 / the mean of the rows
struct Step {
  real size;
};
struct Reductions {
  Sum<rows, 1, Row> row;                                  // if factored
  Sum<columns, 1, Column> column;                         // if factored
  Sum<matrices, 1, Matrix, Entries<rows, Row>> all_rows;  // if factored
  Sum<tensor, 2, Step> step;                              // after: column, all_rows
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double steps = static_cast<double>(t), weight = pow(steps, h.beta2_decay);
    const double root_floor = h.eps[0] == h.eps[0] ? h.eps[0] : kParameterEpsilon;
    Scalars s;
    s.keep = static_cast<real>(1 - weight);
    s.fresh = static_cast<real>(weight);
    s.floor = static_cast<real>(root_floor * root_floor);
    // torch accepts an infinite lr, which makes all step sizes relative.
    s.shrink = static_cast<real>(h.weight_decay == 0 ? 1 : 1 - h.lr * h.weight_decay);
    s.weight = weight;
    s.row_floor = root_floor;
    s.rate = min(1 / sqrt(steps), h.lr);  // an lr that is NaN stays
    s.smallest = h.eps[1];
    s.d = h.d;
    return s;
  }

  // The new mean of squares of a row or column. It interpolates from the nearer end, as torch.lerp does. From the
  // other end, a much smaller new mean would be lost.
  KHD static real averaged(double sum, int64 count, const auto& c, real prev) {
    const double mean = sum / static_cast<double>(count), way = mean - prev;
    return static_cast<real>(c.weight < 0.5 ? prev + c.weight * way : mean - (1 - c.weight) * way);
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, const auto& c, AuxState& m) {
    m.row.next = averaged(sum[0], count, c, m.row.prev);
    return {m.row.next};
  }
  KHD static Reals<1> terms(Of<Column>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Column finalize(Of<Column>, const Totals<1>& sum, int64 count, const auto& c,
                             AuxState& m) {
    m.col.next = averaged(sum[0], count, c, m.col.prev);
    return {m.col.next};
  }
  KHD static Reals<1> terms(Of<Matrix>, const Row& row, const auto&) { return {row.mean}; }
  KHD static Matrix finalize(Of<Matrix>, const Totals<1>& sum, int64 count, const auto& c) {
    return {static_cast<real>(1 / max(c.row_floor, sum[0] / static_cast<double>(count)))};
  }

  KHD static void update_state(auto& e, const auto& c) {
    if (!F.factored) e.v.next = fma(c.keep, e.v.prev, c.fresh * (e.g * e.g));
  }
  KHD static real update(const auto& e, const auto& c) {
    const real v = F.factored ? c.row.mean * c.all_rows.inverse * c.column.mean : e.v.next;
    return e.g / sqrt(max(c.floor, v));
  }
  KHD static Reals<2> terms(Of<Step>, const auto& e, const auto& c) {
    const real u = update(e, c);
    return {e.p * e.p, u * u};
  }
  KHD static Step finalize(Of<Step>, const Totals<2>& sum, int64 count, const auto& c) {
    const double n = static_cast<double>(count);
    const double size = sqrt(sum[0] / n), excess = sqrt(sum[1] / n) / c.d;
    // As Python's max() in torch: an element that is NaN leaves the others alone.
    const double scale = size > c.smallest ? size : c.smallest;
    return {static_cast<real>(scale * c.rate / (excess > 1 ? excess : 1.0))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.shrink - c.step.size * update(e, c);
  }
};

}  // namespace jitstep::rules::adafactor
