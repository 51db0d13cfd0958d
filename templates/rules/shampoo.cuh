// Shampoo (arXiv 1802.09568): the gradient, preconditioned by the inverse roots of its statistics along each dimension, as
// Shampoo of pytorch_optimizer 4.1.0. The momentum is that of the preconditioned gradients, before they are
// preconditioned again. All statistics are those of the gradient with its momentum and coupled decay, before it is
// preconditioned. Roots are also computed in step 1. With k dimensions they have the exponent -1 / (2 k).
// With `maximize`, the momentum starts from the negated gradient. pytorch_optimizer starts it from the gradient itself.
// A scalar counts as a vector of one element.   class: Shampoo
// host transform: shampoo
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::shampoo {

struct Hyper {
  double lr = 1e-3;                    // >= 0
  double momentum = 0;                 // in [0, 1)
  double weight_decay = 0;             // >= 0
  double matrix_eps = 1e-6;            // > 0
  double precondition_frequency = 1;   // integer; >= 1; steps between two computations of the roots
  double max_precondition_dim = 8192;  // integer; >= 0; larger dimensions are not preconditioned
};
struct Flags {
  bool weight_decouple = false;
  bool fixed_decay = false;   // decoupled decay that is not multiplied by lr
  bool has_momentum = false;  // lifted: momentum != 0
};
// refuse: dims > 4, preconditions at most four dimensions. Reshape the parameter
struct Slots {
  Signed m;  // torch: momentum_buffer; after: transformed; if has_momentum
};
struct Matrices {
  Matrix<0, 0> l0;     // torch: pre_cond_0; initial: matrix_eps; largest side: max_precondition_dim
  Matrix<0, 0> root0;  // torch: inv_pre_cond_0; initial: 1; largest side: max_precondition_dim
  Matrix<1, 1> l1;     // torch: pre_cond_1; initial: matrix_eps; largest side: max_precondition_dim
  Matrix<1, 1> root1;  // torch: inv_pre_cond_1; initial: 1; largest side: max_precondition_dim
  Matrix<2, 2> l2;     // torch: pre_cond_2; initial: matrix_eps; largest side: max_precondition_dim
  Matrix<2, 2> root2;  // torch: inv_pre_cond_2; initial: 1; largest side: max_precondition_dim
  Matrix<3, 3> l3;     // torch: pre_cond_3; initial: matrix_eps; largest side: max_precondition_dim
  Matrix<3, 3> root3;  // torch: inv_pre_cond_3; initial: 1; largest side: max_precondition_dim
};
struct Scalars {
  real lr, keep, fresh, coupled, shrink;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double keep = t == 1 ? 0 : h.momentum;  // there is no momentum yet
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.keep = static_cast<real>(keep);
    s.fresh = static_cast<real>(1 - keep);
    s.coupled = static_cast<real>(F.weight_decouple ? 0.0 : h.weight_decay);
    s.shrink = static_cast<real>(
        F.weight_decouple ? 1 - (F.fixed_decay ? h.weight_decay : h.lr * h.weight_decay) : 1.0);
    return s;
  }
  KHD static real transformed(const auto& e, const auto& c) {
    const real mixed = F.has_momentum ? fma(c.keep, e.m.prev, c.fresh * e.g) : e.g;
    return formulas::decayed(c.coupled, e.p, mixed);
  }
  KHD static void update_state_after(auto& e, const auto&) {
    if (F.has_momentum) e.m.next = e.transformed;
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.shrink - c.lr * e.transformed;
  }
};

}  // namespace jitstep::rules::shampoo
