// Lookahead (arXiv 1907.08610): every k steps a parameter moves back to a point between its slow copy and itself, which
// becomes the slow copy. That point is the parameter of the next step, so a rule copies it then.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::formulas {

struct Lookahead {
  real alpha;
  bool copies, merges;
};

// For step t from 1.
KHD Lookahead lookahead(double k, double alpha, int64 t) {
  const int64 every = static_cast<int64>(k);
  return {static_cast<real>(alpha), (t - 1) % every == 0, t % every == 0};
}

// The slow copy in this step.
KHD real slow_copy(real p, real before, const Lookahead& c) { return c.copies ? p : before; }

// The parameter after the step.
KHD real merged(real fast, real slow, const Lookahead& c) {
  return c.merges ? fma(c.alpha, fast - slow, slow) : fast;
}

}  // namespace jitstep::formulas
