// Assigns each reduction of a kernel to a pass.
#pragma once

#include <map>

#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Earliest passes of sums over all tensors.
using EarliestPasses = std::map<SumName, int>;

/// Sets Plan::reductions, passes, slots_known, slots_known_after, transform_passes and state_section. Replaces earlier
/// values. The plan's manifests must be set.
/// The rule's reductions come after the gradient's. A codec's come after those that the new slots depend on. If a codec
/// has NoCode, the rule's reductions over new slots come after the codec's. Reductions that would write the same
/// auxiliary state in one launch get different passes, in the order of declaration.
/// Each host transform comes after the reductions and slots of its section. The next section follows it: what is
/// declared `after:` that transform, in the same order.
void plan_reductions(Plan& plan, const EarliestPasses& earliest);

/// Whether the kernel reads the dimensions of a tensor: its rule takes sizes, or a reduction is over rows or the like.
/// Such a kernel accepts at most kMaxDims dimensions. Any other accepts a dense tensor as one dimension.
bool reads_dimensions(const Plan& plan);

}  // namespace jitstep::jit
