// Plain gradient descent.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::yogi {

struct Hyper {
  double lr = 1e-2;  // >= 0
};
struct Scalars {
  real lr;
};

struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * e.g; }
};

}  // namespace jitstep::rules::yogi
