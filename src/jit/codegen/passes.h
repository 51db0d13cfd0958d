// In which pass each reduction of a kernel is taken.
#pragma once

#include <map>
#include <vector>

#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// The pass of each reduction of a part, in the order of declaration; -1: its condition does not hold.
using Passes = std::vector<int>;
/// Passes before which sums over all tensors must not be taken.
using EarliestPasses = std::map<SumName, int>;

/// The passes of every part of a plan whose manifests are known. The rule's reductions come after the
/// gradient's, a codec's after those that the new slots depend on. Reductions that would advance the same
/// memory at once come one after another, in the order of declaration.
std::vector<Passes> all_passes(const Plan& plan, const EarliestPasses& earliest);

/// Plans the reductions of such a plan (anew): Plan::reductions and Plan::passes.
void plan_reductions(Plan& plan, const EarliestPasses& earliest);

}  // namespace jitstep::jit
