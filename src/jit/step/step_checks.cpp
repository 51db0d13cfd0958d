#include "jit/step/step_checks.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "jit/base/numbers.h"
#include "jit/base/text.h"
#include "jit/codegen/passes.h"
#include "jit/codegen/shared_sums.h"
#include "jit/manifest/option_layout.h"
#include "jit/step/partition.h"
#include "jit/step/step_tables.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

template <class... Words>
[[noreturn]] void throw_tensor_error(const Plan& plan, int id, const Words&... words) {
  throw Error(str_cat("cannot step the tensor with id ", id, " by ", plan.name, ": it ", words...));
}

template <class... Words>
[[noreturn]] void throw_input_error(std::size_t i, const TensorRecord& tensor,
                                    const Words&... words) {
  throw Error(str_cat("invalid step input ", i, " (tensor with id ", tensor.id, "): ", words...));
}

// Whether the state has the layout for this plan. Initial values do not matter.
bool holds_state_of(const Plan& plan, const StepTensor& tensor) {
  const std::vector<double> initial(plan.aux_state.size());
  return tensor.layout->same_sizes(state_layout(plan, tensor.shape, initial));
}

// Whether the kernels can treat the tensor as one of at most kMaxDims dimensions.
bool has_few_dims(const Plan& plan, const StepTensor& tensor) {
  return tensor.shape.sizes.size() <= kMaxDims ||
         (!reads_dimensions(plan) && merged_dims(tensor).size() <= kMaxDims);
}

// True if an empty part could not take part in a sum over all tensors.
bool sums_entries_of_all(const Plan& plan) {
  return std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [](const ResolvedReduction& r) {
                       return r.active() && r.is_global && r.reduction_layout != 0;
                     });
}

void check_part(const Plan& plan, const StepTensor& tensor) {
  const std::int64_t elements = tensor.shape.elements(), last = tensor.offset + elements;
  if (tensor.whole < 0 || last > tensor.whole)
    throw_tensor_error(plan, tensor.id, "is the part from element ", tensor.offset, " to ", last,
                       " of ", tensor.whole, " elements. Give it the size of the whole tensor.");
  if (elements == tensor.whole) return;
  const std::int64_t grain = part_grain(plan);
  if (elements == 0) {
    if (sums_entries_of_all(plan))
      throw_tensor_error(plan, tensor.id,
                         "is an empty part, but the rule sums entries of rows or the like ",
                         "over all tensors. Step whole tensors on one rank.");
    return;
  }
  if (grain == 0)
    throw_tensor_error(plan, tensor.id,
                       "is a part, but the kernel has sums or auxiliary state per row, ",
                       "column or the like. Give it the whole tensor.");
  if (tensor.offset % grain != 0 || (last % grain != 0 && last != tensor.whole))
    throw_tensor_error(plan, tensor.id, "is the part from element ", tensor.offset, " to ", last,
                       ". Parts must begin at multiples of ", grain, " elements.");
}

void check_tensor(const Plan& plan, const StepTensor& tensor) {
  const std::size_t dims = tensor.shape.sizes.size();
  if (tensor.shape.strides.size() != dims || (dims > 0 && tensor.g_strides.size() != dims))
    throw_tensor_error(plan, tensor.id, "has ", dims, " sizes, ", tensor.shape.strides.size(),
                       " strides and ", tensor.g_strides.size(),
                       " gradient strides. Give one of each per dimension.");
  for (const std::int64_t size : tensor.shape.sizes)
    if (size < 0)
      throw_tensor_error(plan, tensor.id, "has a size of ", size, ". Sizes must be at least 0.");
  if (!has_few_dims(plan, tensor))
    throw_tensor_error(
        plan, tensor.id, "has ", dims, " dimensions. At most ", kMaxDims,
        " are supported if the rule has reductions over rows or similar domains, if it reads ",
        "sizes, or if parameter and gradient are in different orders. Reshape it.");
  if (tensor.slots.size() > plan.spec.state.slots.size())
    throw_tensor_error(plan, tensor.id, "has ", tensor.slots.size(), " slots, but the rule has ",
                       plan.spec.state.slots.size(), ". Create a StateStorage for this plan.");
  if (tensor.aux_state.size() > plan.aux_state.size())
    throw_tensor_error(plan, tensor.id, "has ", tensor.aux_state.size(),
                       " fields of auxiliary state, but the kernel has ", plan.aux_state.size(),
                       ". Create a StateStorage for this plan.");
  if (tensor.offset < 0 || tensor.offset % 8 != 0)
    throw_tensor_error(
        plan, tensor.id, "starts at element ", tensor.offset,
        ". Its offset must be a multiple of 8, because 8 elements share a draw of random bits.");
  if (tensor.whole != 0) check_part(plan, tensor);
  if (tensor.layout && !holds_state_of(plan, tensor))
    throw_tensor_error(plan, tensor.id,
                       "has state for another plan or shape. Create a StateStorage for this ",
                       "plan.");
  if (tensor.id < 0)
    throw_tensor_error(plan, tensor.id, "has a negative id. Ids must be at least 0.");
}

// `prepare` of a part reads the sizes of the whole tensor.
void check_whole_sizes(const Plan& plan, const StepTensor& tensor) {
  if (!plan.rule().reads_sizes || tensor.whole == 0 || tensor.whole == tensor.shape.elements())
    return;
  const std::vector<std::int64_t>& sizes = tensor.whole_sizes;
  if (sizes.empty() || sizes.size() > kMaxDims || Shape{sizes, {}}.elements() != tensor.whole)
    throw_tensor_error(plan, tensor.id, "is a part of ", tensor.whole,
                       " elements, and the rule reads sizes. Set whole_sizes to the at most ",
                       kMaxDims, " sizes of the whole tensor.");
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
                          " needs shared state. Create it once with make_shared_state(), and pass ",
                          "it to every Step."));
    if (owner != nullptr && owner != &plan.rule())
      throw Error(str_cat("cannot step the rules ", owner->name, " and ", plan.spec.rule,
                          " together: they differ, and both have shared state. ",
                          "Step them separately."));
    owner = &plan.rule();
  }
}

void check_ids(const std::vector<const StepTensor*>& tensors) {
  std::map<int, std::size_t> seen;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [found, fresh] = seen.emplace(tensors[i]->id, i);
    if (!fresh)
      throw Error(str_cat("tensors ", found->second, " and ", i,
                          " of the step (counted from 0) both have the id ", tensors[i]->id,
                          ". Ids order the sums over all tensors. Give each its own."));
  }
}

void check_distinct(const std::vector<const StepTensor*>& tensors) {
  std::unordered_map<const void*, std::size_t> owners;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto own = [&](const void* address, const char* what) {
      const auto [found, fresh] = owners.emplace(address, i);
      if (fresh || found->second == i || address == nullptr) return;
      throw Error(str_cat(
          "tensors ", found->second, " and ", i, " of the step (counted from 0), with the ids ",
          tensors[found->second]->id, " and ", tensors[i]->id, ", share memory: ", what,
          " of the second are in memory of the first. Give each tensor memory of its own."));
    };
    if (tensors[i]->shape.elements() == 0) continue;
    own(tensors[i]->p, "the values");
    for (const SlotBuffers& slot : tensors[i]->slots)
      own(slot.codes, "the codes"), own(slot.meta, "the scales");
    for (const auto& buffers : tensors[i]->aux_state)
      for (const void* buffer : buffers) own(buffer, "the fields of auxiliary state");
    own(tensors[i]->residual, "the residuals");
  }
}

std::vector<Plan> plans_of(const std::vector<Batch>& batches) {
  std::vector<Plan> plans;
  std::vector<const StepTensor*> all;
  bool ordered = false;
  for (const Batch& batch : batches) {
    check_tensors(batch.plan, batch.tensors);
    for (const StepTensor& tensor : batch.tensors) check_whole_sizes(batch.plan, tensor);
    plans.push_back(batch.plan);
    for (const StepTensor& tensor : batch.tensors) all.push_back(&tensor);
    ordered = ordered || !sums_of(batch.plan).empty() || !batch.plan.shared_state.empty();
  }
  if (ordered) check_ids(all);
  check_distinct(all);
  share_sums(plans);
  return plans;
}

void check_buffers(const Plan& plan, const std::vector<TensorRecord>& tensors) {
  for (const TensorRecord& tensor : tensors) {
    if (tensor.n == 0) continue;
    const auto need = [&](const void* address, const auto&... what) {
      if (address == nullptr) throw_tensor_error(plan, tensor.id, "has no memory for ", what...);
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
      for (const void* buffer : tensor.aux[field.number])
        if (!field.matrix) need(buffer, "both buffers of its auxiliary state ", field.name);
    if (plan.weights->residual_bytes() > 0)
      need(tensor.residual, "the residual of the weight format ", plan.spec.state.weights);
  }
}

void check_counts(const std::vector<StepInput>& inputs,
                  const std::vector<const TensorRecord*>& tensors,
                  const std::vector<HyperParams>& hyper_params) {
  if (inputs.size() != tensors.size())
    throw Error(str_cat("the step has ", tensors.size(), " tensors, but ", inputs.size(),
                        " inputs. Give one per tensor, batch after batch."));
  for (std::size_t i = 0; i < hyper_params.size(); ++i)
    if (hyper_params[i].t < 1)
      throw Error(str_cat("HyperParams ", i, " of the step have the step number ",
                          hyper_params[i].t, ". Step numbers start at 1."));
}

void check_input(std::size_t number, const StepInput& input, const TensorRecord& tensor,
                 std::size_t hyper_params, bool reads_gradients) {
  if (input.inactive) return;
  if (input.hyper_index < 0 || static_cast<std::size_t>(input.hyper_index) >= hyper_params)
    throw_input_error(number, tensor, "hyper_index is ", input.hyper_index,
                      ", but the number of HyperParams is ", hyper_params);
  if (reads_gradients && input.g == nullptr && tensor.n > 0)
    throw_input_error(number, tensor,
                      "the gradient is missing: g is null. Leave the tensor out of the step's "
                      "batches, or set `inactive`.");
}

void check_counters(const std::vector<StepInput>& inputs,
                    const std::vector<const TensorRecord*>& tensors,
                    const std::vector<HyperParams>& hyper_params, const SharedState* shared_state,
                    bool on_device) {
  if (hyper_params.empty()) return;
  for (const HyperParams& one : hyper_params)
    if (one.found_inf != hyper_params.front().found_inf)
      throw Error(
          "the HyperParams of a step have different found_inf. A step is skipped as a whole. Set "
          "the same found_inf in all of them.");
  if (hyper_params.front().found_inf == nullptr && !on_device) return;
  const char* const why = on_device ? "counted on the device" : "with found_inf";
  if (shared_state != nullptr && shared_state->step_offset == nullptr)
    throw Error(str_cat("cannot run a step ", why, " of a rule with shared state: ",
                        "SharedState::step_offset is null. Point it to an int64 of 0 in device ",
                        "memory."));
  std::unordered_set<const int64*> seen;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].inactive) continue;
    const int64* const step_offset =
        hyper_params[static_cast<std::size_t>(inputs[i].hyper_index)].step_offset;
    if (step_offset == nullptr || !seen.insert(step_offset).second)
      throw_input_error(i, *tensors[i],
                        step_offset == nullptr ? "step_offset is null"
                                               : "another tensor has the same step_offset",
                        " in a step ", why,
                        ". Give each tensor HyperParams with its own step_offset.");
  }
}

namespace {

bool same_value(const PackedOption& option, const HyperParams& a, const HyperParams& b) {
  const std::size_t end = option.index + static_cast<std::size_t>(option.option->doubles());
  for (std::size_t i = option.index; i < end; ++i)
    if (!same_number(a.hyper[i], b.hyper[i])) return false;
  return true;
}

std::string shown_value(const PackedOption& option, const HyperParams& group) {
  return to_string(option.value({std::begin(group.hyper), std::end(group.hyper)}));
}

}  // namespace

// One tensor writes the shared state, with the options of its own group. The options that the state depends on must
// therefore be equal in all groups.
void check_same_in_groups(const Plan& plan, const std::vector<HyperParams>& hyper_params,
                          const std::vector<bool>& used) {
  const auto layout = plan.catalog->option_layout(plan.spec.rule);
  for (const PackedOption& one : layout->options_of(layout->rule)) {
    if (!one.option->same_in_groups) continue;
    const std::string& name = one.option->name;
    const HyperParams* first = nullptr;
    for (std::size_t i = 0; i < hyper_params.size(); ++i) {
      if (!used[i]) continue;
      const HyperParams& now = hyper_params[i];
      if (first == nullptr) first = &now;
      const bool on_device = now.lr != nullptr && name == "lr";
      if (!on_device && !same_value(one, now, *first))
        throw Error(str_cat("cannot step groups with different ", name, " (",
                            shown_value(one, *first), " and ", shown_value(one, now), ") by ",
                            plan.spec.rule, ": they share state that depends on it. Use one ",
                            "optimizer for each value of ", name, "."));
    }
  }
}

void check_scale(const Plan& plan, const std::vector<HyperParams>& hyper_params) {
  const auto divided = [](const HyperParams& one) { return one.grad_scale != nullptr; };
  if (std::any_of(hyper_params.begin(), hyper_params.end(), divided) &&
      !plan.spec.gradient_flags.at("scaled").boolean())
    throw Error(str_cat("cannot step with a grad_scale by ", plan.name,
                        ": the kernel does not divide gradients. Call resolve() with the gradient ",
                        "flag \"scaled\"."));
}

}  // namespace jitstep::jit
