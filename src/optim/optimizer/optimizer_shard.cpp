// Steps of an optimizer whose state several ranks share: each rank steps its part of every parameter.
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "jit/step/partition.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "jitstep/sharding.h"
#include "optim/optimizer/reduction.h"
#include "optim/shard/part_exchange.h"
#include "optim/shard/process_group.h"
#include "optim/shard/rank_check.h"
#include "optim/shard/state_gather.h"
#include "optim/state/weight_conversion.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// The gradient's elements, in the parameter's storage order.
torch::Tensor gradient_range(const torch::Tensor& p, const torch::Tensor& grad,
                             const jit::Part& part) {
  const torch::Tensor range = in_element_order(p, grad).narrow(0, part.first, part.count());
  return is_dense_like(p, grad) ? range : range.clone();
}

void check_options(const ShardOptions& options) {
  TORCH_CHECK(options.micro_batches() >= 1, "jitstep: shard(): micro_batches is ",
              options.micro_batches(), ". Set it to 1 or more.");
  TORCH_CHECK(options.bucket_bytes() >= 0, "jitstep: shard(): bucket_bytes is ",
              options.bucket_bytes(), ". Set it to 0 or more.");
  const bool own = options.gradients() == ShardOptions::Gradients::own;
  TORCH_CHECK(own || !options.in_backward(),
              "jitstep: shard(): in_backward needs own gradients. Set gradients(",
              "ShardOptions::Gradients::own).");
  TORCH_CHECK(
      options.micro_batches() == 1 || options.in_backward(),
      "jitstep: shard(): micro_batches needs in_backward(true). Without it, p.grad() is the ",
      "sum that backward() accumulates.");
}

ReductionOptions reduction_options(const ShardOptions& options) {
  return {options.reduction() == ShardOptions::Reduction::ordered, options.micro_batches(),
          options.bucket_bytes()};
}

// All ranks tune with the times of the slowest rank, because the others wait for it. Ranks without elements of a kernel
// measure nothing.
jit::Agreement times_of_slowest_rank(const std::shared_ptr<RankGroup>& ranks) {
  return [ranks](const std::vector<double>& own) {
    const torch::Tensor all = ranks->all_gather(torch::tensor(own, torch::kFloat64));
    const double* next = all.const_data_ptr<double>();
    std::vector<double> slowest(own.size(), 0.0);
    for (int rank = 0; rank < ranks->size(); ++rank)
      for (double& one : slowest)
        if (const double given = *next++; given != jit::kNothingMeasured)
          one = std::max(one, given);
    std::replace(slowest.begin(), slowest.end(), 0.0, jit::kNothingMeasured);
    return slowest;
  };
}

}  // namespace

void Optimizer::shard(const c10::intrusive_ptr<c10d::ProcessGroup>& group) { shard(group, {}); }

void Optimizer::shard(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                      const ShardOptions& options) {
  impl_->shard(ranks_of(group), options);
}

bool Optimizer::reduces_gradients() const { return impl_->reduction != nullptr; }

bool Optimizer::reduces_in_backward() const {
  return impl_->reduction && impl_->reduction->in_backward();
}

std::pair<std::int64_t, std::int64_t> Optimizer::part_of(const torch::Tensor& parameter) const {
  void* const key = key_of(parameter);
  TORCH_CHECK(impl_->group_of(key),
              "jitstep: part_of: the tensor is not a parameter of this optimizer. Pass one of its "
              "parameters.");
  if (!impl_->sharding) return {0, parameter.numel()};
  if (!impl_->groups_unchanged()) impl_->check_groups_fixed();
  const jit::Part& part = impl_->sharding->part(key);
  return {part.first, part.last};
}

void Optimizer::Impl::check_can_shard() const {
  TORCH_CHECK(!sharding, "jitstep: shard() was called before. Make a new optimizer to use another ",
              "group.");
  TORCH_CHECK(
      !offload,
      "jitstep: shard() does not work with offload(). Make a new optimizer, and call one of ",
      "the two.");
  TORCH_CHECK(!hooks,
              "jitstep: shard() does not work with step_in_backward(): ranks must take a step ",
              "together. Call step_in_backward(false) first.");
}

// State that exists already is cut.
void Optimizer::Impl::shard(const std::shared_ptr<RankGroup>& ranks, const ShardOptions& options) {
  const OwnOperations own;
  std::shared_ptr<Sharding> fresh;
  try {
    check_options(options);
    check_can_shard();
    sync_groups();
    for (std::size_t g = 0; g < groups.size(); ++g) refresh_options(g);
    start_gathering();
    fresh = std::make_shared<Sharding>(*this, ranks, options);
  } catch (...) {
    report_failure(*ranks);  // the other ranks wait in their shard()
    throw;
  }
  sharding = std::move(fresh);
  try {
    together(RankCall::shard, [&] {
      if (options.gradients() == ShardOptions::Gradients::own)
        reduction = std::make_shared<Reduction>(*sharding, reduction_options(options),
                                                options.in_backward());
      for (const ParameterName& name : sharding->names()) {
        const torch::Tensor& p = sharding->parameter(name);
        bind_stored_state(groups[name.group].param_records[name.index], p);
      }
    });
  } catch (...) {
    reduction.reset();
    sharding.reset();
    throw;
  }
  for (const ParameterName& name : sharding->names()) {
    ParamRecord& record = groups[name.group].param_records[name.index];
    record.group_revision = -1;
    record.gradient_checked = false;  // it may be reduced from now on
    if (auto* const state = dynamic_cast<ParamState*>(find_state(record.key)))
      reduce_to_part(name.group, name.index, state->data());
  }
  stepper = Stepper();
  stepper.set_ranks(sharding.get());
  tuning_is_settled = false;
  if (!agree_on_tuning) agree_on_tuning = times_of_slowest_rank(ranks);
}

void Optimizer::Impl::together(RankCall call, const std::function<void()>& action) {
  if (!sharding) return action();
  sharding->run(call, [&] {
    if (!groups_unchanged()) check_groups_fixed();
    action();
  });
}

void Optimizer::Impl::agree() {
  if (sharding) sharding->agree();
}

void Optimizer::Impl::check_groups_fixed() const {
  TORCH_CHECK(!sharding,
              "jitstep: the parameters of an optimizer cannot change after shard(): every ",
              "rank has parts of them. Add all parameters before shard().");
}

// Updates the view of a part, because the parameter may have other storage now.
void Optimizer::Impl::update_part(ParamRecord& record, const torch::Tensor& p) const {
  const std::size_t index = sharding->index_of(record.key);
  const jit::Part& own = sharding->part(record.key);
  std::int64_t elements = 0;
  for (int rank = 0; rank < sharding->partition().ranks(); ++rank)
    elements = std::max(elements, sharding->partition().part(rank, index).last);
  const bool is_cut = own.count() != elements;
  TORCH_CHECK(p.numel() == elements && (!is_cut || sharding->keeps_order(record.key, p)),
              "jitstep: ", describe(p, record.name),
              " has another size or layout than when shard() ",
              "was called. Make a new optimizer and call shard() again.");
  if (!is_cut) return record.part.reset();
  const void* const before = record.part.defined() ? record.part.const_data_ptr() : nullptr;
  record.part = own.count() == 0 ? torch::empty({0}, p.options().requires_grad(false))
                                 : storage_range(p.detach(), own.first, own.count());
  if (record.part.const_data_ptr() != before)
    record.group_revision = -1;  // bind the state to the new part
}

// Formats may change after shard(). The parts do not.
void Optimizer::Impl::check_formats_of_part(const ParamRecord& record,
                                            const jit::Plan& plan) const {
  if (!sharding || !record.part.defined() || record.part.numel() == 0) return;
  TORCH_CHECK(jit::part_grain(plan) > 0, "jitstep: ", describe(*record.parameter, record.name),
              " cannot change to formats or options with values per row or column after shard(): ",
              "this rank has a part of it. Choose them before shard().");
}

// From here on, a step sees the parts only.
void Optimizer::Impl::use_parts() {
  if (!sharding) return;
  TORCH_CHECK(!extras.capturable,
              "jitstep: capturable() does not work with shard(): a graph cannot ",
              "repeat the exchange with other ranks. Call capturable(false).");
  for (auto* const list : {&active, &inactive})
    for (StepParam* const param : *list) {
      auto& record = static_cast<ParamRecord&>(*param);
      if (!record.part.defined()) continue;
      const torch::Tensor& p = *record.parameter;
      if (record.grad == &p) record.grad = &record.part;
      const jit::Part& own = sharding->part(record.key);
      if (record.grad != nullptr && record.grad != &record.part &&
          record.grad != &record.part_grad) {
        record.part_grad = own.count() == 0
                               ? torch::empty({0}, record.grad->options().requires_grad(false))
                               : gradient_range(p, *record.grad, own);
        record.grad = &record.part_grad;
        record.g = record.part_grad.const_data_ptr();
      }
      if (record.grad != nullptr && record.inputs != nullptr) {
        record.part_inputs = *record.inputs;
        for (torch::Tensor& one : record.part_inputs)
          if (one.defined()) one = storage_range(one, own.first, own.count());
        record.inputs = &record.part_inputs;
      }
      record.p = &record.part;
    }
}

void Optimizer::Impl::gather_parameters() {
  if (!sharding) return;
  for (StepParam* const param : active) {
    auto& record = static_cast<ParamRecord&>(*param);
    record.part_grad.reset();
    record.part_inputs.clear();
  }
  sharding->gather_parameters();
  for (StepParam* const param : active) {
    const auto& record = static_cast<const ParamRecord&>(*param);
    if (record.part.defined()) bump_version(*record.parameter);
  }
}

// The state of a whole parameter, or new state, becomes that of this rank's part.
void Optimizer::Impl::reduce_to_part(std::size_t g, std::size_t index,
                                     ParamState::Data& state) const {
  const ParamRecord& record = groups[g].param_records[index];
  const torch::Tensor& p = param_groups()[g].params()[index];
  StateBuffers& buffers = state.buffers;
  if (p.numel() == 0 || buffers.whole == p.numel()) return;
  const jit::Part& own = sharding->part(record.key);
  if (buffers.plan != nullptr && state.same_layout(p)) return state.reduce_to_part(p, own);
  buffers.first = own.first;
  buffers.whole = p.numel();
}

// The states of whole parameters, on rank 0. False on other ranks.
bool Optimizer::Impl::gather_states(std::map<void*, ParamState>& whole) const {
  for (const ParameterName& name : sharding->names()) {
    void* const key = groups[name.group].param_records[name.index].key;
    const auto* const state = dynamic_cast<const ParamState*>(find_state(key));
    if (state == nullptr) continue;
    const torch::Tensor& p = sharding->parameter(name);
    TORCH_CHECK(state->data().buffers.plan != nullptr, "jitstep: the state of ", describe(p, name),
                " was replaced since the last step. Call step() before save().");
    const StateBuffers& part = state->data().buffers;
    const ParamRecord& record = groups[name.group].param_records[name.index];
    TORCH_CHECK(
        !record.part.defined() || sharding->keeps_order(key, p), "jitstep: ", describe(p, name),
        " has another layout than when shard() was called. Give it ", "that layout before save().");
    const auto initial =
        groups[name.group].record.initial(*part.plan, record.index_in_group).aux_state;
    StateBuffers all = gather_state(sharding->ranks(), sharding->partition(),
                                    sharding->index_of(key), part, p, initial);
    if (sharding->ranks().rank() != 0) continue;
    all.move_to_host();  // the state of all ranks need not fit into the memory of one GPU
    ParamState::Data& gathered = whole.insert_or_assign(key, *state).first->second.data();
    gathered.buffers = std::move(all);
    gathered.layout = {p.sizes().vec(), p.strides().vec(), p.scalar_type(), p.device()};
  }
  return sharding->ranks().rank() == 0;
}

// The weights of one parameter, from the parts of all ranks.
torch::Tensor Optimizer::Impl::gather_weights(const void* key, const torch::Tensor& p,
                                              const ParamState* state) const {
  torch::Tensor whole = p.detach().to(torch::kFloat32, false, true);
  const bool more = state != nullptr && state->data().buffers.residual.defined() &&
                    state->data().layout.dtype == p.scalar_type() && p.numel() > 0;
  if (!more) return whole;
  const jit::Part& own = sharding->part(key);
  torch::Tensor flat = torch::empty({p.numel()}, whole.options());
  if (own.count() > 0) {
    // Not state->weights(): a state that was loaded or cut is not bound to its part before the next step.
    const ParamState::Data& data = state->data();
    const torch::Tensor mine =
        own.count() == p.numel() ? p.detach() : storage_range(p.detach(), own.first, own.count());
    const torch::Tensor part =
        weights_of(data.buffers, data.layout.strides, mine).to(torch::kFloat32);
    flat.narrow(0, own.first, own.count()).copy_(storage_range(part, 0, own.count()));
  }
  gather_parts(sharding->ranks(), sharding->partition(), {{sharding->index_of(key), flat}});
  return in_storage_order(flat, p);
}

}  // namespace jitstep
