// Validation of a step's inputs, before anything is changed. Each function throws an Error that names the tensor.
#pragma once

#include <vector>

#include "jit/base/args.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// Checks shapes, counts and ids of tensors for this plan.
JITSTEP_API void check_tensors(const Plan& plan, const std::vector<StepTensor>& tensors);

/// Checks that a rule with shared state gets it, and that only one rule uses it.
void check_shared_state(const std::vector<Plan>& plans, const SharedState* shared_state);

/// Checks that ids are distinct. They order the sums over all tensors.
void check_ids(const std::vector<const StepTensor*>& tensors);

/// Checks that no two tensors have a buffer at the same address, which both would write at once. Ignores null pointers
/// and tensors without elements.
void check_distinct(const std::vector<const StepTensor*>& tensors);

/// Checks that the batches can be stepped together. Returns their plans after share_sums(). Does not check that buffers
/// are set, which may happen later.
std::vector<Plan> plans_of(const std::vector<Batch>& batches);

/// Checks that the buffers of parameters, slots, auxiliary state and residuals are set.
void check_buffers(const Plan& plan, const std::vector<TensorRecord>& tensors);

/// Checks that there is one input per tensor, and that step numbers are valid.
void check_counts(const std::vector<StepInput>& inputs,
                  const std::vector<const TensorRecord*>& tensors,
                  const std::vector<HyperParams>& hyper_params);

/// Checks that an active input has a valid index of HyperParams and, if the step reads gradients, a gradient. `number`:
/// the index of the input.
void check_input(std::size_t number, const StepInput& input, const TensorRecord& tensor,
                 std::size_t hyper_params, bool reads_gradients);

/// Checks what the device needs to skip or count steps: one found_inf for all tensors, and a separate step offset for
/// each tensor. `shared_state`: null for a rule without shared state.
JITSTEP_API void check_counters(const std::vector<StepInput>& inputs,
                                const std::vector<const TensorRecord*>& tensors,
                                const std::vector<HyperParams>& hyper_params,
                                const SharedState* shared_state, bool on_device);

/// Checks the options that a rule with shared state declares as the same in all groups. `used`: which HyperParams its
/// active tensors use. An lr on the device is not read.
void check_same_in_groups(const Plan& plan, const std::vector<HyperParams>& hyper_params,
                          const std::vector<bool>& used);

/// Checks that the kernel divides gradients if HyperParams have a grad_scale.
JITSTEP_API void check_scale(const Plan& plan, const std::vector<HyperParams>& hyper_params);

}  // namespace jitstep::jit
