// Lookahead (arXiv 1907.08610). In every k-th step, the parameter becomes a point between its slow copy and itself. k must
// not change during training: the next merge would be with an old slow copy.
// This point is also the new slow copy. The step after it stores the copy, because the parameter still has that value.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::formulas {

struct Lookahead {
  real alpha;
  // Numbers, because g++ vectorizes no loop that reads a bool.
  int copies;  // 1 in steps 1, k + 1, ...: the parameter becomes the slow copy
  int merges;  // 1 in steps k, 2 k, ...
};

// For step t, counted from 1.
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
