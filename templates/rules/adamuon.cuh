// AdaMuon (arXiv 2507.11005): Muon of the momentum's signs, with a second moment of each orthogonalized element. An
// update has root mean square 0.2.   class: AdaMuon
// host transform: newton_schulz
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::adamuon {

enum class IterationDtype { bf16, real };

struct Hyper {
  double lr = 1e-3;                                       // >= 0
  double weight_decay = 0.1;                              // >= 0
  Numbers<2> betas = {0.95, 0.95};                        // in [0, 1)
  Numbers<3> ns_coefficients = {3.4445, -4.775, 2.0315};  // finite
  double eps = 1e-8;                                      // > 0
  double ns_steps = 5;                                    // integer; in [0, 100)
  double ns_eps = 1e-7;                                   // > 0; the least norm of a matrix in the iteration
};
struct Flags {
  bool sign = true;              // orthogonalizes the signs of the momentum
  bool nesterov = false;         // the gradient's part counts twice, as in Muon
  bool bias_correction = false;  // of the second moment
  IterationDtype ns_dtype = IterationDtype::bf16;
};
// refuse: dims != 2, takes only matrices. Give parameters of other shapes to another optimizer, such as adamw
struct Slots {
  Signed m;
  NonNegative v;  // after: transformed
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, root_correction, eps, shrink;
  double floor, rate;
};
struct Norm {
  real step;
};
struct Reductions {
  Sum<tensor, 1, Norm> norm;  // after: transformed
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.root_correction = static_cast<real>(F.bias_correction ? sqrt(1 - power(h.betas[1], t)) : 1.0);
    s.eps = static_cast<real>(h.eps);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    s.floor = h.eps;
    s.rate = 0.2 * h.lr;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
  }
  KHD static real transformed(const auto& e, const auto& c) {
    const real momentum = F.nesterov ? fma(c.beta1, e.m.next, c.fresh1 * e.g) : e.m.next;
    return F.sign ? jitstep::sign(momentum) : momentum;
  }
  KHD static void update_state_after(auto& e, const auto& c) {
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.transformed * e.transformed));
  }
  KHD static real normalized(const auto& e, const auto& c) {
    return e.transformed / (sqrt(e.v.next) / c.root_correction + c.eps);
  }
  KHD static Reals<1> terms(Of<Norm>, const auto& e, const auto& c) {
    const real u = normalized(e, c);
    return {u * u};
  }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64 count, const auto& c) {
    return {
        static_cast<real>(c.rate * sqrt(static_cast<double>(count)) / (sqrt(sum[0]) + c.floor))};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.shrink - c.norm.step * normalized(e, c);
  }
};

}  // namespace jitstep::rules::adamuon
