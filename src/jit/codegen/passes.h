// Assigns each reduction of a kernel to a pass.
#pragma once

#include <map>

#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Earliest passes of sums over all tensors.
using EarliestPasses = std::map<SumName, int>;

/// Sets Plan::reductions, passes, slots_known, transform_pass and slots_known_after, and replaces earlier values. The
/// plan's manifests must be set.
/// The rule's reductions come after the gradient's. A codec's come after those that the new slots depend on. If a codec
/// has NoCode, the rule's reductions over new slots come after the codec's. Reductions that would write the same
/// auxiliary state in one launch get different passes, in the order of declaration.
/// A host transform comes after all of these. What is declared `after: transformed` comes then, in the same order.
void plan_reductions(Plan& plan, const EarliestPasses& earliest);

/// Whether the kernel reads the dimensions of a tensor: its rule takes sizes, or a reduction is over rows or the like.
/// Such a kernel accepts at most kMaxDims dimensions. Any other accepts a dense tensor as one dimension.
bool reads_dimensions(const Plan& plan);

}  // namespace jitstep::jit
