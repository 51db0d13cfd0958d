#include "jit/step/step_checks.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "jit/base/text.h"
#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

template <class... Words>
[[noreturn]] void refuse(const Plan& plan, int id, const Words&... words) {
  throw Error(str_cat("a step by ", plan.name, ": the tensor with id ", id, " ", words...));
}

template <class... Words>
[[noreturn]] void refuse_input(std::size_t i, const TensorRecord& tensor, const Words&... words) {
  throw Error(str_cat("a step: input ", i, ", of the tensor with id ", tensor.id, ", ", words...));
}

// Whether its memory is laid out for this kernel; what it begins with does not matter.
bool holds_state_of(const Plan& plan, const StepTensor& tensor) {
  const std::vector<double> initial(plan.aux_state.size());
  return tensor.layout->same_memory(state_layout(plan, tensor.shape, initial));
}

// Whether the kernels may take it as one dimension.
bool can_be_flat(const Plan& plan, const StepTensor& tensor) {
  const auto compact = compact_strides(tensor.shape);
  return is_dense(tensor.shape, compact) &&
         is_dense({tensor.shape.sizes, tensor.g_strides}, compact) &&
         std::none_of(
             plan.reductions.begin(), plan.reductions.end(),
             [](const ResolvedReduction& r) { return r.active() && r.reduction_layout != 0; });
}

void check_tensor(const Plan& plan, const StepTensor& tensor) {
  const std::size_t dims = tensor.shape.sizes.size();
  if (tensor.shape.strides.size() != dims || (dims > 0 && tensor.g_strides.size() != dims))
    refuse(plan, tensor.id, "has ", dims, " sizes, ", tensor.shape.strides.size(), " strides and ",
           tensor.g_strides.size(), " of its gradient; give one of each for every dimension");
  for (const std::int64_t size : tensor.shape.sizes)
    if (size < 0) refuse(plan, tensor.id, "has a size of ", size, "; sizes are 0 or more");
  if (dims > kMaxDims && !can_be_flat(plan, tensor))
    refuse(plan, tensor.id, "has ", dims,
           " dimensions; a rule that sums over rows or the like, and a ",
           "layout with gaps or in another order, takes at most ", kMaxDims, ": reshape it");
  if (tensor.slots.size() > plan.spec.state.slots.size())
    refuse(plan, tensor.id, "has ", tensor.slots.size(), " slots; the rule has ",
           plan.spec.state.slots.size());
  if (tensor.aux_state.size() > plan.aux_state.size())
    refuse(plan, tensor.id, "has ", tensor.aux_state.size(), " fields of memory; the kernel has ",
           plan.aux_state.size());
  if (tensor.offset < 0 || tensor.offset % 8 != 0)
    refuse(plan, tensor.id, "begins at element ", tensor.offset,
           "; a shard begins at a multiple of 8, since 8 elements share a draw of random bits");
  if (tensor.layout && !holds_state_of(plan, tensor))
    refuse(plan, tensor.id, "has state of another layout, made for another plan or shape; make a ",
           "StateStorage for this plan");
  if (tensor.id < 0) refuse(plan, tensor.id, "needs another: ids are 0 or more");
}

}  // namespace

void check_tensors(const Plan& plan, const std::vector<StepTensor>& tensors) {
  for (const StepTensor& tensor : tensors) check_tensor(plan, tensor);
}

void check_shared_state(const std::vector<Plan>& plans, const SharedState* shared_state) {
  const Manifest* owner = nullptr;
  for (const Plan& plan : plans) {
    if (plan.shared_state.empty()) continue;
    if (shared_state == nullptr || shared_state->buffers[0] == nullptr)
      throw Error(str_cat("the rule ", plan.spec.rule,
                          " keeps memory of all tensors; make it once by ",
                          "make_shared_state() and give it to every Step"));
    if (owner != nullptr && owner != &plan.rule())
      throw Error(str_cat("the rules ", owner->name, " and ", plan.spec.rule,
                          " both keep memory of all ",
                          "tensors, and are not the same; step them apart"));
    owner = &plan.rule();
  }
}

void check_ids(const std::vector<const StepTensor*>& tensors) {
  std::map<int, std::size_t> seen;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [found, fresh] = seen.emplace(tensors[i]->id, i);
    if (!fresh)
      throw Error(str_cat("a step: its tensors number ", found->second, " and ", i,
                          " (counted from 0) both have the id ", tensors[i]->id,
                          "; ids order the sums over all tensors: give each its own"));
  }
}

void check_distinct(const std::vector<const StepTensor*>& tensors) {
  std::unordered_map<const void*, std::size_t> owners;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto own = [&](const void* address, const char* what) {
      const auto [found, fresh] = owners.emplace(address, i);
      if (fresh || found->second == i || address == nullptr) return;
      throw Error(str_cat("a step: its tensors number ", found->second, " and ", i,
                          " (counted from 0), with the ids ", tensors[found->second]->id, " and ",
                          tensors[i]->id, ", share memory: ", what,
                          " of the second lie in it; give ",
                          "each tensor an array and a StateStorage of its own"));
    };
    if (tensors[i]->shape.elements() == 0) continue;
    own(tensors[i]->p, "the values");
    for (const SlotBuffers& slot : tensors[i]->slots)
      own(slot.codes, "codes"), own(slot.meta, "scales");
    for (const auto& buffers : tensors[i]->aux_state)
      for (const void* half : buffers) own(half, "fields of memory");
    own(tensors[i]->residual, "the bytes that its weight format keeps");
  }
}

std::vector<Plan> plans_of(const std::vector<Batch>& batches) {
  std::vector<Plan> plans;
  std::vector<const StepTensor*> all;
  bool ordered = false;
  for (const Batch& batch : batches) {
    check_tensors(batch.plan, batch.tensors);
    plans.push_back(batch.plan);
    for (const StepTensor& tensor : batch.tensors) all.push_back(&tensor);
    ordered = ordered || !sums_of(batch.plan).empty() || !batch.plan.shared_state.empty();
  }
  if (ordered) check_ids(all);
  check_distinct(all);
  share_sums(plans);
  return plans;
}

void check_aux_state(const Plan& plan, const std::vector<TensorRecord>& tensors) {
  for (const TensorRecord& tensor : tensors) {
    if (tensor.n == 0) continue;
    const auto need = [&](const void* address, const auto&... what) {
      if (address == nullptr) refuse(plan, tensor.id, "has no memory for ", what...);
    };
    need(tensor.p, "its values: p is null");
    for (std::size_t slot = 0; slot < plan.spec.state.slots.size(); ++slot) {
      const Manifest* const codec = plan.codec(static_cast<int>(slot));
      if (codec == nullptr) continue;
      if (codec->code_bits(plan.spec.state.dtype) > 0)
        need(tensor.slots[slot].codes, "the codes of its slot ", plan.rule().slots[slot].name);
      if (codec->meta_bytes() > 0)
        need(tensor.slots[slot].meta, "the scales of its slot ", plan.rule().slots[slot].name);
    }
    for (const ResolvedAuxState& field : plan.aux_state)
      for (const void* half : tensor.aux[field.number])
        need(half, "both buffers of its memory field ", field.name);
    if (plan.weights->residual_bytes() > 0)
      need(tensor.residual, "what the weight format ", plan.spec.state.weights, " keeps beside it");
  }
}

void check_inputs(const std::vector<StepInput>& inputs,
                  const std::vector<const TensorRecord*>& tensors,
                  const std::vector<HyperParams>& hyper_params) {
  if (inputs.size() != tensors.size())
    throw Error(str_cat("a step of ", tensors.size(), " tensors was given ", inputs.size(),
                        " inputs; give one for each tensor, batch after batch"));
  for (std::size_t i = 0; i < hyper_params.size(); ++i)
    if (hyper_params[i].t < 1)
      throw Error(str_cat("a step: set ", i, " has the step number ", hyper_params[i].t,
                          "; steps are counted from 1"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].inactive) continue;
    if (inputs[i].hyper_index < 0 ||
        static_cast<std::size_t>(inputs[i].hyper_index) >= hyper_params.size())
      refuse_input(i, *tensors[i], "names set ", inputs[i].hyper_index, "; the step has ",
                   hyper_params.size());
  }
}

void check_gradients(const std::vector<StepInput>& inputs,
                     const std::vector<const TensorRecord*>& tensors) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].inactive && inputs[i].g == nullptr && tensors[i]->n > 0)
      refuse_input(i, *tensors[i],
                   "has no gradient: g is null; leave the tensor out of the step's batches, or say "
                   "that it rests");
}

void check_counters(const std::vector<StepInput>& inputs,
                    const std::vector<const TensorRecord*>& tensors,
                    const std::vector<HyperParams>& hyper_params, const SharedState* shared_state,
                    bool on_device) {
  if (hyper_params.empty()) return;
  for (const HyperParams& hyper_index : hyper_params)
    if (hyper_index.found_inf != hyper_params.front().found_inf)
      throw Error(
          "a step: its sets have different found_inf; a step is skipped as a whole: give all of "
          "them one");
  if (hyper_params.front().found_inf == nullptr && !on_device) return;
  const char* const why = on_device ? "counted on the device" : "with found_inf";
  if (shared_state != nullptr && shared_state->step_offset == nullptr)
    throw Error(str_cat(
        "a step ", why,
        " by a rule that keeps memory of all tensors: SharedState::step_offset is null; give it an "
        "integer, 0, in the machine's memory"));
  std::unordered_set<const int64*> seen;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].inactive) continue;
    const int64* const step_offset =
        hyper_params[static_cast<std::size_t>(inputs[i].hyper_index)].step_offset;
    if (step_offset == nullptr || !seen.insert(step_offset).second)
      refuse_input(i, *tensors[i], step_offset == nullptr ? "has no" : "shares its",
                   " lag in a step ", why, "; give each tensor a set with an integer of its own");
  }
}

void check_scale(const Plan& plan, const std::vector<HyperParams>& hyper_params) {
  const auto divided = [](const HyperParams& hyper_index) {
    return hyper_index.grad_scale != nullptr;
  };
  if (std::any_of(hyper_params.begin(), hyper_params.end(), divided) &&
      !plan.spec.gradient_flags.at("scaled").boolean())
    throw Error(str_cat("a step with a grad_scale by ", plan.name,
                        ", which does not divide; resolve() ",
                        "its plan with the gradient flag \"scaled\""));
}

}  // namespace jitstep::jit
