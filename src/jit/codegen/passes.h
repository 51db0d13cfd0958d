// In which pass each reduction of a kernel is taken.
#pragma once

#include <map>

#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Passes before which sums over all tensors must not be taken.
using EarliestPasses = std::map<SumName, int>;

/// Plans the reductions of a plan whose manifests are known (anew): Plan::reductions, passes and
/// slots_known. The rule's reductions come after the gradient's, a codec's after those that the new slots
/// depend on; where a codec has no codes, the rule's other ones come after its own. Reductions that would
/// advance the same memory at once come one after another, in the order of declaration.
void plan_reductions(Plan& plan, const EarliestPasses& earliest);

}  // namespace jitstep::jit
