// A rule of the tests: every elementary function in `prepare` and in `finalize`, and those of elements.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::elementary_functions {

struct Hyper {
  double lr = 1e-3;      // >= 0
  double decay = 0.8;    // >= 0
  double warmup = 1000;  // > 0
};
struct Slots {
  Signed m;
};
struct Scalars {
  real lr, stored, fresh;
};
struct Size {
  real power, root, roots, entropy;
};
struct Reductions {
  Sum<tensor, 1, Size> size;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    const double warm = -exp(-static_cast<double>(t) / h.warmup) + 1;
    const double stored = 1 - pow(t + 1, -h.decay);
    Scalars s;
    s.lr = static_cast<real>(h.lr * warm * exp2(-log2(1 + h.decay)) * cbrt(h.warmup));
    s.stored = static_cast<real>(stored);
    s.fresh = static_cast<real>(1 - stored);
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.stored, e.m.prev, c.fresh * e.g);
  }
  KHD static Reals<1> terms(Of<Size>, const auto& e, const auto&) { return {e.m.next * e.m.next}; }
  KHD static Size finalize(Of<Size>, const Totals<1>& sum, int64 count, const auto& c) {
    const double mean = sum[0] / static_cast<double>(count);
    Size s;
    s.power = static_cast<real>(pow(mean, 0.3) + exp(-mean));
    s.root = static_cast<real>(exp2(log2(mean + 1) / 5));
    s.roots = static_cast<real>(cbrt(mean));
    s.entropy = static_cast<real>(c.lr * log(mean + 2));
    return s;
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real size = c.size.power + c.size.root + c.size.roots;
    e.p -= c.size.entropy * cbrt(e.m.next) / size + c.lr * cbrt(e.p);
    e.p -= c.lr * (atan2(e.m.next, e.p) + tanh(e.g));
  }
};

}  // namespace jitstep::rules::elementary_functions
