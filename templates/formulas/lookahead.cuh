// Lookahead (arXiv 1907.08610): every k steps a parameter moves back to a point between its slow copy and itself, which
// becomes the slow copy. That point is the parameter of the next step, so a rule copies it then.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::formulas {

struct Lookahead {
  real alpha;
  int copies, merges;  // 0 or 1. g++ vectorizes no loop that reads a bool.
};

// For step t from 1.
KHD Lookahead lookahead(double k, double alpha, int64 t) {
  const int64 every = static_cast<int64>(k);
  return {static_cast<real>(alpha), (t - 1) % every == 0 ? 1 : 0, t % every == 0 ? 1 : 0};
}

// The slow copy in this step.
KHD real slow_copy(real p, real before, const Lookahead& c) { return c.copies != 0 ? p : before; }

// The parameter after the step.
KHD real merged(real fast, real slow, const Lookahead& c) {
  return c.merges != 0 ? fma(c.alpha, fast - slow, slow) : fast;
}

}  // namespace jitstep::formulas
