// SOAP (arXiv 2409.11321): AdamW in the eigenbasis of Shampoo's statistics, as the authors' code and pytorch_optimizer's
// SOAP. Step 1 only starts the statistics, and changes no parameter. A parameter without statistics, such as a vector, is
// stepped by AdamW from step 2 on. The bias correction counts steps from step 2. normalize_gradient divides an update by
// its root mean square plus eps.   class: SOAP
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::soap {

struct Hyper {
  double lr = 3e-3;                     // >= 0
  Numbers<2> betas = {0.95, 0.95};      // in [0, 1)
  Nullable shampoo_beta = null;         // in [0, 1); of the statistics; by default betas[1]
  double eps = 1e-8;                    // > 0
  double weight_decay = 0.01;           // >= 0
  double precondition_frequency = 10;   // integer; >= 1; steps between two eigenbases
  double max_precondition_dim = 10000;  // integer; >= 0; larger dimensions keep their basis
};
struct Flags {
  bool precondition_1d = false;
  bool correct_bias = true;
  bool normalize_gradient = false;  // updates with root mean square 1
  bool preconditioned = false;      // lifted: dims > 1 || precondition_1d
};
// refuse: dims > 4, has eigenbases of at most four dimensions. Reshape the parameter
struct Transforms {
  real gradient;  // host: soap_gradient
  real momentum;  // host: soap_momentum
  real update;    // host: soap_update
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq; after: gradient
};
struct Matrices {
  Matrix<0, 0> gg0;  // torch: GG_0; largest side: max_precondition_dim; if preconditioned
  Matrix<0, 0> q0;   // torch: Q_0; initial: 1; largest side: max_precondition_dim; if preconditioned
  Matrix<1, 1> gg1;  // torch: GG_1; largest side: max_precondition_dim
  Matrix<1, 1> q1;   // torch: Q_1; initial: 1; largest side: max_precondition_dim
  Matrix<2, 2> gg2;  // torch: GG_2; largest side: max_precondition_dim
  Matrix<2, 2> q2;   // torch: Q_2; initial: 1; largest side: max_precondition_dim
  Matrix<3, 3> gg3;  // torch: GG_3; largest side: max_precondition_dim
  Matrix<3, 3> q3;   // torch: Q_3; initial: 1; largest side: max_precondition_dim
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, rate, shrink;
  double floor;
};
struct Norm {
  real inverse;
};
struct Reductions {
  Sum<tensor, 1, Norm> norm;  // after: update; if normalize_gradient
};

template <Flags F>
struct Rule {
  // The step that starts the statistics does not count.
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const bool first = t == 1;
    const int64 taken = first ? 1 : t - 1;
    const double correction =
        F.correct_bias ? sqrt(1 - power(h.betas[1], taken)) / (1 - power(h.betas[0], taken)) : 1.0;
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(first ? 0.0 : 1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(first ? 0.0 : 1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.rate = static_cast<real>(first ? 0.0 : h.lr * correction);
    s.shrink = static_cast<real>(first ? 1.0 : 1 - h.lr * h.weight_decay);
    s.floor = h.eps;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
  }
  KHD static real gradient(const auto& e, const auto&) { return e.g; }
  KHD static real momentum(const auto& e, const auto&) { return e.m.next; }
  KHD static void update_state_after(auto& e, const auto& c) {
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.gradient * e.gradient));
  }
  KHD static real update(const auto& e, const auto& c) {
    return e.momentum / (sqrt(e.v.next) + c.eps);
  }
  KHD static Reals<1> terms(Of<Norm>, const auto& e, const auto&) { return {e.update * e.update}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64 count, const auto& c) {
    return {static_cast<real>(1 / (sqrt(sum[0] / static_cast<double>(count)) + c.floor))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real update = F.normalize_gradient ? e.update * c.norm.inverse : e.update;
    e.p = (e.p - c.rate * update) * c.shrink;
  }
};

}  // namespace jitstep::rules::soap
