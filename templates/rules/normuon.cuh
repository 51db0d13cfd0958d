// NorMuon (arXiv 2510.05491): Muon, with a second moment for each row of the orthogonalized matrix. The normalized update
// keeps the norm that Muon's has (`preserve_norm`: the authors' code), or has root mean square 0.2 (`match_rms`: the
// paper's Algorithm 1).   class: NorMuon
// host transform: newton_schulz
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::normuon {

enum class UpdateScale { preserve_norm, match_rms };
enum class IterationDtype { bf16, real };

struct Hyper {
  double lr = 0.02;                                       // >= 0
  double weight_decay = 0;                                // >= 0
  double momentum = 0.95;                                 // in [0, 1)
  double beta2 = 0.95;                                    // in [0, 1)
  Numbers<3> ns_coefficients = {3.4445, -4.775, 2.0315};  // finite
  double eps = 1e-10;                                     // > 0
  double ns_steps = 5;                                    // integer; in [0, 100)
  double ns_eps = 1e-7;                                   // > 0; the least norm of a matrix in the iteration
};
struct Flags {
  bool nesterov = true;
  UpdateScale update_scale = UpdateScale::preserve_norm;
  IterationDtype ns_dtype = IterationDtype::bf16;
};
// refuse: dims != 2, takes only matrices. Give parameters of other shapes to another optimizer, such as adamw
struct Slots {
  Signed m;  // torch: momentum_buffer
};
struct AuxState {
  Entry<rows> v;  // torch: second_momentum_buffer
};
struct Scalars {
  real momentum, fresh, shrink;
  double keep, eps, rate;
};
struct Row {
  real inverse;
};  // 1 / the root of the row's second moment
struct Norm {
  real step;
};
struct Reductions {
  Sum<rows, 1, Row> row;      // after: transformed
  Sum<tensor, 2, Norm> norm;  // after: row
};

template <Flags F>
struct Rule {
  // The factor of Muon's update for a matrix of these sizes.
  KHD static double muon_factor(const Sizes& size) {
    return sqrt(max(1.0, static_cast<double>(size(0)) / static_cast<double>(size(1))));
  }
  KHD static Scalars prepare(const Hyper& h, int64, const Sizes& size) {
    Scalars s;
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.momentum);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.keep = h.beta2;
    s.eps = h.eps;
    s.rate = h.lr * (F.update_scale == UpdateScale::preserve_norm ? muon_factor(size) : 0.2);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.momentum, e.m.prev, c.fresh * e.g);
  }
  KHD static real transformed(const auto& e, const auto& c) {
    return F.nesterov ? fma(c.momentum, e.m.next, c.fresh * e.g) : e.m.next;
  }

  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) {
    return {e.transformed * e.transformed};
  }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64 count, const auto& c, AuxState& m) {
    const double mean = sum[0] / static_cast<double>(count);
    m.v.next = static_cast<real>(c.keep * m.v.prev + (1 - c.keep) * mean);
    return {static_cast<real>(1 / (sqrt(static_cast<double>(m.v.next)) + c.eps))};
  }
  KHD static Reals<2> terms(Of<Norm>, const auto& e, const auto& c) {
    const real normalized = e.transformed * c.row.inverse;
    return {e.transformed * e.transformed, normalized * normalized};
  }
  KHD static Norm finalize(Of<Norm>, const Totals<2>& sum, int64 count, const auto& c) {
    const double wanted = F.update_scale == UpdateScale::preserve_norm
                              ? sqrt(sum[0])
                              : sqrt(static_cast<double>(count));
    return {static_cast<real>(c.rate * wanted / (sqrt(sum[1]) + c.eps))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.shrink - c.norm.step * (e.transformed * c.row.inverse);
  }
};

}  // namespace jitstep::rules::normuon
