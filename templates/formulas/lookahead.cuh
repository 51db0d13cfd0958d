// Lookahead (arXiv 1907.08610). k steps after the last merge, the parameter becomes a point between its slow copy and
// itself. This point is also the new slow copy. The step after it stores the copy, because the parameter still has that
// value. The steps are counted, so k may change at any time.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::formulas {

struct Lookahead {
  real alpha;
  // Numbers, because g++ vectorizes no loop that reads a bool.
  int copies;  // 1 in step 1 and after a merge: the parameter becomes the slow copy
  int merges;  // 1 if this step merges
};

// `since`: the steps since the last merge, an entry of the rule's AuxState.
KHD Lookahead lookahead(double k, double alpha, auto& since) {
  const bool merges = since.prev + 1 >= k;
  since.next = merges ? 0.0 : since.prev + 1;
  return {static_cast<real>(alpha), since.prev == 0 ? 1 : 0, merges ? 1 : 0};
}

// The slow copy in this step.
KHD real slow_copy(real p, real before, const Lookahead& c) { return c.copies != 0 ? p : before; }

// The parameter after the step.
KHD real merged(real fast, real slow, const Lookahead& c) {
  return c.merges != 0 ? fma(c.alpha, fast - slow, slow) : fast;
}

}  // namespace jitstep::formulas
