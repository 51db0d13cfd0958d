// What a step refuses before anything is changed: an Error names the tensor.
#pragma once

#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/shared_state.h"
#include "jitstep/jit/step.h"
#include "jitstep/jit/step_tensor.h"

namespace jitstep::jit {

/// Tensors that no kernel of this plan can step, whatever they hold: shapes, counts, numbers.
JITSTEP_API void check_tensors(const Plan& plan, const std::vector<StepTensor>& tensors);

/// Rules with memory of domain `all` that was not given, or that two of them would share.
void check_shared_state(const std::vector<Plan>& plans, const SharedState* shared_state);

/// Ids that are not distinct: they order the sums over all tensors.
void check_ids(const std::vector<const StepTensor*>& tensors);

/// Two tensors of which something lies at one address: both would be written at once. Memory that is not
/// given yet, and tensors without elements, share none.
JITSTEP_API void check_distinct(const std::vector<const StepTensor*>& tensors);

/// The plans of batches that can be stepped together, which take each other's sums over all tensors. Memory is not looked
/// at: it may come later.
std::vector<Plan> plans_of(const std::vector<Batch>& batches);

/// Memory that is missing: of parameters, slots, memory fields or what a weight format keeps beside.
void check_aux_state(const Plan& plan, const std::vector<TensorRecord>& tensors);

/// Inputs of a step: one for each tensor, with a set that is there.
void check_inputs(const std::vector<StepInput>& inputs,
                  const std::vector<const TensorRecord*>& tensors,
                  const std::vector<HyperParams>& hyper_params);

/// The gradients of such inputs.
void check_gradients(const std::vector<StepInput>& inputs,
                     const std::vector<const TensorRecord*>& tensors);

/// What a device needs to skip a step, or to count all of them: one found_inf for all, and for each tensor a count of
/// its own. `common`: null for a rule that keeps no memory of all.
JITSTEP_API void check_counters(const std::vector<StepInput>& inputs,
                                const std::vector<const TensorRecord*>& tensors,
                                const std::vector<HyperParams>& hyper_params,
                                const SharedState* shared_state, bool on_device);

/// Sets with a grad_scale for a kernel that does not divide.
JITSTEP_API void check_scale(const Plan& plan, const std::vector<HyperParams>& hyper_params);

}  // namespace jitstep::jit
