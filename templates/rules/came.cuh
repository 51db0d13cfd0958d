// CAME (arXiv 2307.02047): Adafactor's factored second moment, with steps scaled by each update's distance from its
// average, as pytorch_optimizer's CAME. It factors the last two dimensions of matrices.   class: CAME
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::came {

struct Hyper {
  double lr = 2e-4;                         // >= 0
  Numbers<3> betas = {0.9, 0.999, 0.9999};  // in [0, 1)
  double weight_decay = 0;                  // >= 0
  double clip_threshold = 1;                // > 0
  double eps1 = 1e-30;                      // >= 0
  double eps2 = 1e-16;                      // >= 0
};
struct Flags {
  bool weight_decouple = true;
  bool fixed_decay = false;
  bool factored = false;  // lifted: dims > 1
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq; if !factored
};
struct AuxState {
  Entry<rows> row;            // torch: exp_avg_sq_row; if factored
  Entry<columns> column;      // torch: exp_avg_sq_col; if factored
  Entry<rows> res_row;        // torch: exp_avg_res_row; if factored
  Entry<columns> res_column;  // torch: exp_avg_res_col; if factored
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, beta3, fresh3, lr, weight_decay, shrink, eps1, eps2;
  double clip_threshold;
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
struct Clip {
  real factor;
};
struct ResRow {
  real mean;
};
struct ResColumn {
  real mean;
};
struct ResMatrix {
  real mean;
};
struct Reductions {
  Sum<rows, 1, Row> row;                                // if factored; update_state
  Sum<columns, 1, Column> column;                       // if factored; update_state
  Sum<matrices, 1, Matrix, Entries<rows, Row>> matrix;  // if factored; update_state
  Sum<tensor, 1, Clip> clip;                            // after: row, column, matrix; update_state
  Sum<rows, 1, ResRow> res_row;                         // if factored; after: clip
  Sum<columns, 1, ResColumn> res_column;                // if factored; after: clip
  Sum<matrices, 1, ResMatrix, Entries<rows, ResRow>> res_matrix;  // if factored
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.beta3 = static_cast<real>(h.betas[2]);
    s.fresh3 = static_cast<real>(1 - h.betas[2]);
    s.lr = static_cast<real>(h.lr);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.shrink = static_cast<real>(1 - (F.fixed_decay ? 1.0 : h.lr) * h.weight_decay);
    s.eps1 = static_cast<real>(h.eps1);
    s.eps2 = static_cast<real>(h.eps2);
    s.clip_threshold = h.clip_threshold;
    return s;
  }
  KHD static real mean(const Totals<1>& sum, int64 count) {
    return static_cast<real>(sum[0] / static_cast<double>(count));
  }

  // The second moment: row and column means, or v for vectors.
  KHD static real gradient(const auto& e, const auto& c) {
    return F.weight_decouple ? e.g : formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static real square(const auto& e, const auto& c) {
    const real g = gradient(e, c);
    return fma(g, g, c.eps1);
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto& c) { return {square(e, c)}; }
  KHD static Reals<1> terms(Of<Column>, const auto& e, const auto& c) { return {square(e, c)}; }
  KHD static Reals<1> terms(Of<Matrix>, const Row& row, const auto&) { return {row.mean}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, const auto& c, AuxState& m) {
    m.row.next = fma(c.beta2, m.row.prev, c.fresh2 * mean(sum, count));
    return {m.row.next};
  }
  KHD static Column finalize(Of<Column>, const Totals<1>& sum, int64 count, const auto& c,
                             AuxState& m) {
    m.column.next = fma(c.beta2, m.column.prev, c.fresh2 * mean(sum, count));
    return {m.column.next};
  }
  KHD static Matrix finalize(Of<Matrix>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static real second_moment(const auto& e, const auto& c) {
    return fma(c.beta2, e.v.prev, c.fresh2 * square(e, c));
  }

  // The update, clipped to a root mean square of clip_threshold, and the average of updates.
  KHD static real unclipped(const auto& e, const auto& c) {
    if (!F.factored) return gradient(e, c) / sqrt(second_moment(e, c));
    return gradient(e, c) / sqrt(c.row.mean / c.matrix.mean) / sqrt(c.column.mean);
  }
  KHD static Reals<1> terms(Of<Clip>, const auto& e, const auto& c) {
    const real u = unclipped(e, c);
    return {u * u};
  }
  KHD static Clip finalize(Of<Clip>, const Totals<1>& sum, int64 count, const auto& c) {
    const double rms = sqrt(sum[0] / static_cast<double>(count));
    return {static_cast<real>(max(1.0, rms / c.clip_threshold))};
  }
  KHD static real update(const auto& e, const auto& c) { return unclipped(e, c) / c.clip.factor; }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * update(e, c));
    if (!F.factored) e.v.next = second_moment(e, c);
  }

  // The confidence: row and column means of the update's squared distance to its average.
  KHD static real residual(const auto& e, const auto& c) {
    const real r = update(e, c) - e.m.next;
    return fma(r, r, c.eps2);
  }
  KHD static Reals<1> terms(Of<ResRow>, const auto& e, const auto& c) { return {residual(e, c)}; }
  KHD static Reals<1> terms(Of<ResColumn>, const auto& e, const auto& c) {
    return {residual(e, c)};
  }
  KHD static Reals<1> terms(Of<ResMatrix>, const ResRow& row, const auto&) { return {row.mean}; }
  KHD static ResRow finalize(Of<ResRow>, const Totals<1>& sum, int64 count, const auto& c,
                             AuxState& m) {
    m.res_row.next = fma(c.beta3, m.res_row.prev, c.fresh3 * mean(sum, count));
    return {m.res_row.next};
  }
  KHD static ResColumn finalize(Of<ResColumn>, const Totals<1>& sum, int64 count, const auto& c,
                                AuxState& m) {
    m.res_column.next = fma(c.beta3, m.res_column.prev, c.fresh3 * mean(sum, count));
    return {m.res_column.next};
  }
  KHD static ResMatrix finalize(Of<ResMatrix>, const Totals<1>& sum, int64 count, const auto&) {
    return {mean(sum, count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real p = F.weight_decouple ? e.p * c.shrink : e.p;
    real step = e.m.next;
    if (F.factored)
      step = step / sqrt(c.res_row.mean / c.res_matrix.mean) / sqrt(c.res_column.mean);
    e.p = p - c.lr * step;
  }
};

}  // namespace jitstep::rules::came
