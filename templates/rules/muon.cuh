// Muon: momentum with orthogonalized matrices, as torch.optim.Muon. The host transform orthogonalizes by
// Newton-Schulz iterations, and multiplies by the rate adjustment for the matrix's sizes.   class: Muon
// host transform: newton_schulz
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::muon {

enum class RateAdjustment { original, match_rms_adamw };
enum class IterationDtype { bf16, real };

struct Hyper {
  double lr = 1e-3;                                       // >= 0
  double weight_decay = 0.1;                              // >= 0
  double momentum = 0.95;                                 // >= 0
  Numbers<3> ns_coefficients = {3.4445, -4.775, 2.0315};  // finite
  double eps = 1e-7;                                      // >= 0
  double ns_steps = 5;                                    // integer; in [0, 100)
};
struct Flags {
  bool nesterov = true;
  RateAdjustment adjust_lr_fn = RateAdjustment::original;
  IterationDtype ns_dtype = IterationDtype::bf16;
};
// refuse: dims != 2, takes only matrices. Give parameters of other shapes to another optimizer, such as adamw
struct Slots {
  Signed m;  // torch: momentum_buffer
};
struct Scalars {
  real momentum, fresh, lr, shrink;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.momentum = static_cast<real>(h.momentum);
    s.fresh = static_cast<real>(1 - h.momentum);
    s.lr = static_cast<real>(h.lr);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.momentum, e.m.prev, c.fresh * e.g);
  }
  KHD static real transformed(const auto& e, const auto& c) {
    return F.nesterov ? fma(c.momentum, e.m.next, c.fresh * e.g) : e.m.next;
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.p * c.shrink - c.lr * e.transformed;
  }
};

}  // namespace jitstep::rules::muon
