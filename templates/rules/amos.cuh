// Amos (arXiv 2210.11693): steps and decay towards the weights' expected scale, with one second moment per tensor, as
// pytorch_optimizer. The scale follows from the tensor's sizes: sqrt(2 / size(1)) for matrices, sqrt(1 / size(1)) for
// more dimensions, 0.5 for vectors. The second moment's divisor is v + eps. The authors' jestimator has max(v, eps), and
// no extra_l2.   class: Amos
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::amos {

struct Hyper {
  double lr = 1e-3;      // >= 0
  double beta = 0.999;   // in [0, 1)
  double momentum = 0;   // in [0, 1)
  double extra_l2 = 0;   // >= 0; larger values decay less: the factor is (gamma - extra_l2) / 2
  double c_coef = 0.25;  // >= 0
  double d_coef = 0.25;  // >= 0
  double eps = 1e-18;    // >= 0
};
struct Flags {
  bool has_momentum = false;  // lifted: momentum != 0
};
struct Slots {
  Signed m;  // torch: exp_avg; if has_momentum
};
struct AuxState {
  Entry<tensor, double> v;      // torch: exp_avg_sq
  Entry<tensor, double> decay;  // torch: decay
};
struct Scalars {
  real momentum, fresh;
  double lr, beta, extra_l2, c, d, eps, correction, start;  // start: lr times the expected scale
};
struct Step {
  real gradient, weight;
};  // the factors of gradient and weight in an update
struct Reductions {
  Sum<tensor, 1, Step> step;  // update_state
};

template <Flags F>
struct Rule {
  // The expected root mean square of the weights.
  KHD static double scale_of(const Sizes& size) {
    if (size.dims() < 2) return 0.5;
    return sqrt((size.dims() == 2 ? 2.0 : 1.0) / static_cast<double>(size(1)));
  }
  KHD static Scalars prepare(const Hyper& h, int64 t, const Sizes& size) {
    Scalars s;
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.momentum);
    s.lr = h.lr;
    s.beta = h.beta;
    s.extra_l2 = h.extra_l2;
    s.eps = h.eps;
    s.correction = 1 - power(h.beta, t);
    s.start = h.lr * scale_of(size);
    s.c = h.c_coef * sqrt(max(h.lr, 0.0));
    s.d = h.d_coef * sqrt(max(s.start, 0.0));
    return s;
  }
  KHD static Reals<1> terms(Of<Step>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Step finalize(Of<Step>, const Totals<1>& sum, int64 count, const auto& c,
                           AuxState& m) {
    const double square = sum[0] / static_cast<double>(count);
    m.v.next = c.beta * m.v.prev + (1 - c.beta) * square;
    const double inverse = c.correction / (m.v.next + c.eps);
    const double gamma = c.lr * c.lr * inverse * square / sqrt(1 + c.c * m.decay.prev);
    const double shrink = 1 / (1 + c.d * m.decay.prev);
    m.decay.next = m.decay.prev * (1 + gamma) + gamma;
    return {static_cast<real>(shrink * c.start * sqrt(inverse)),
            static_cast<real>(shrink * (gamma - c.extra_l2) / 2)};
  }
  KHD static real update(const auto& e, const auto& c) {
    return fma(c.step.gradient, e.g, c.step.weight * e.p);
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.momentum, e.m.prev, c.fresh * update(e, c));
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= F.has_momentum ? e.m.next : update(e, c);
  }
};

}  // namespace jitstep::rules::amos
