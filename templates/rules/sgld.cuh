// SGLD (Welling and Teh, ICML 2011): a gradient step plus Gaussian noise, so that the parameters become samples of a
// posterior. The noise has the variance 2 lr temperature. With the gradient of a mean loss over N samples, the posterior
// has temperature 1 / N. weight_decay is the precision of a Gaussian prior, divided by N. A step with a negative lr has
// no noise. `preconditioned` is pSGLD (arXiv 1512.07666) without its correction term, as its authors run it: RMSprop's
// denominator scales step and noise.   class: SGLD
#pragma once
#include "../formulas/decay.cuh"

namespace jitstep::rules::sgld {

struct Hyper {
  double lr = 1e-3;           // >= 0
  double temperature = 1e-4;  // >= 0
  double weight_decay = 0;    // >= 0
  double alpha = 0.99;        // in [0, 1); of the second moment, with preconditioned
  double eps = 1e-5;          // >= 0; with preconditioned
};
struct Flags {
  bool preconditioned = false;
};
struct Slots {
  NonNegative v;  // torch: square_avg; if preconditioned
};
struct Scalars {
  real lr, weight_decay, noise, alpha, fresh, eps;
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.weight_decay = static_cast<real>(h.weight_decay);
    s.noise = static_cast<real>(sqrt(2 * max(h.lr, 0.0) * h.temperature));
    s.alpha = static_cast<real>(h.alpha);
    s.fresh = static_cast<real>(1 - h.alpha);
    s.eps = static_cast<real>(h.eps);
    return s;
  }
  KHD static real decayed(const auto& e, const auto& c) {
    return formulas::decayed(c.weight_decay, e.p, e.g);
  }
  KHD static void update_state(auto& e, const auto& c) {
    const real g = decayed(e, c);
    e.v.next = fma(c.alpha, e.v.prev, c.fresh * (g * g));
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real g = decayed(e, c), z = normal_of(e.random(0), e.random(1));
    if (F.preconditioned) {
      const real scale = 1 / (sqrt(e.v.next) + c.eps);
      e.p -= fma(c.lr * scale, g, c.noise * sqrt(scale) * z);
    } else {
      e.p -= fma(c.lr, g, c.noise * z);
    }
  }
};

}  // namespace jitstep::rules::sgld
