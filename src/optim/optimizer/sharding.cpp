#include "optim/optimizer/sharding.h"

#include <torch/types.h>

#include <algorithm>
#include <string>

#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/spec.h"
#include "jitstep/sharding.h"
#include "optim/optimizer/reduction.h"
#include "optim/shard/part_exchange.h"
#include "optim/shard/whole_transform.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {

Optimizer::Impl::Sharding::Sharding(Impl& impl, std::shared_ptr<RankGroup> ranks,
                                    const ShardOptions& options)
    : impl_(impl),
      ranks_(std::move(ranks)),
      partition_({}, 1),
      options_(RankHash()
                   .add(options.gradients())
                   .add(options.in_backward())
                   .add(options.reduction())
                   .add(options.micro_batches())
                   .add(options.bucket_bytes())
                   .value()),
      bucket_bytes_(options.bucket_bytes()) {
  std::vector<jit::PartitionedTensor> tensors;
  for (std::size_t g = 0; g < impl_.groups.size(); ++g)
    for (const ParamRecord& record : impl_.groups[g].param_records) {
      if (record.repeated) continue;
      const torch::Tensor& p = parameter(record.name);
      const auto plan =
          with_context(p, record.name, [&] { return impl_.groups[g].record.plan(p); });
      index_[record.key] = names_.size();
      names_.push_back(record.name);
      strides_.push_back(jit::compact_strides(shape_of(p)));
      tensors.push_back({p.numel(), is_dense_like(p, p) ? jit::part_grain(*plan) : 0});
    }
  partition_ = jit::Partition(tensors, ranks_->size());
  for (const ParameterName& name : names_) check_device(name);
}

void Optimizer::Impl::Sharding::run(RankCall call, const std::function<void()>& action) {
  TORCH_CHECK(!lost_ || call == RankCall::load,
              "jitstep: parameters and state of this rank are of ",
              "different steps, because an exchange of parameters failed. Load a checkpoint.");
  // A closure may make such calls inside of step().
  const RankCall outer_call = std::exchange(call_, call);
  const bool outer_agreed = std::exchange(agreed_, false);
  const auto restore = [&] { call_ = outer_call, agreed_ = outer_agreed; };
  try {
    action();
    agree();
  } catch (...) {
    end_failed_call();
    restore();
    throw;
  }
  restore();
  if (call != RankCall::load || !std::exchange(lost_, false)) return;
  if (impl_.reduction) impl_.reduction->end_step();  // gradients after the step that failed
}

bool Optimizer::Impl::Sharding::keeps_order(const void* key, const torch::Tensor& p) const {
  return is_dense_like(p, p) && jit::compact_strides(shape_of(p)) == strides_[index_of(key)];
}

// If ranks do not throw together, the others wait for this one.
void Optimizer::Impl::Sharding::end_failed_call() {
  const auto of_step = call_ == RankCall::step ? impl_.reduction : nullptr;
  if (std::exchange(agreed_, true)) return;
  if (of_step) of_step->join_failed_step();
  report_failure(*ranks_);
  if (of_step) of_step->end_failed_step();
}

void Optimizer::Impl::Sharding::agree_on_call() {
  agreed_ = true;
  check_same(*ranks_, call_);
}

// Users may change param_groups() directly.
const torch::Tensor& Optimizer::Impl::Sharding::parameter(const ParameterName& name) const {
  const auto& all = impl_.param_groups();
  if (name.group >= all.size() || name.index >= all[name.group].params().size())
    impl_.check_groups_fixed();
  return all[name.group].params()[name.index];
}

std::vector<torch::Tensor> Optimizer::Impl::Sharding::parameters() const {
  std::vector<torch::Tensor> all;
  for (const ParameterName& name : names_) all.push_back(parameter(name));
  return all;
}

void Optimizer::Impl::Sharding::agree() {
  if (std::exchange(agreed_, true)) return;
  if (is_launch()) find_ids();
  check_same(
      *ranks_, call_, digests(),
      [&](std::size_t i) { return describe(parameter(names_[i]), names_[i]); }, options_);
  if (call_ == RankCall::step) share_found_inf();
}

void Optimizer::Impl::Sharding::exchange(const std::vector<jit::PartialSums>& partials) {
  gather_partial_sums(
      *ranks_, partition_, [&](int id) { return index_of_id_.at(id); }, partials,
      impl_.active.front()->p->device());
}

void Optimizer::Impl::Sharding::transform(const std::vector<TransformedPart>& parts, int number,
                                          const TransformOfGroup& transform) {
  std::vector<PartialValues> all;
  std::vector<const StepParam*> params;  // of `all`
  for (const StepParam* const param : impl_.active) {
    const auto& group = impl_.groups[param->name.group];
    if (static_cast<int>(group.transforms.size()) <= number) continue;
    const auto own = std::find_if(parts.begin(), parts.end(),
                                  [&](const auto& one) { return one.param == param; });
    const torch::Tensor& p = parameter(param->name);
    if (p.numel() == 0) continue;
    all.push_back({index_of(*param), param->name.group, p, real_dtype(dtype_of(p)),
                   own == parts.end() ? torch::Tensor() : own->values,
                   !group.record.values().rule().matrices.empty()});
    params.push_back(param);
  }
  transform_whole(*ranks_, partition_, all,
                  [&](std::size_t group, const std::vector<WholeValues>& values) {
                    std::vector<TransformedPart> parameters;
                    for (const WholeValues& one : values)
                      parameters.push_back({params[one.index], one.values});
                    transform(group, number, parameters);
                  });
}

void Optimizer::Impl::Sharding::gather_parameters() {
  lost_ = true;
  std::vector<GatheredTensor> flat;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> gaps;  // parameters, and dense copies
  for (const StepParam* const param : impl_.active) {
    const torch::Tensor p = parameter(param->name).detach();
    if (p.numel() == 0) continue;
    torch::Tensor dense = p;
    if (!is_dense_like(p, p)) gaps.emplace_back(p, dense = p.contiguous());
    flat.push_back({index_of(*param), storage_range(dense, 0, p.numel())});
  }
  gather_parts(*ranks_, partition_, flat, bucket_bytes_);
  for (const auto& [p, dense] : gaps) overwrite(p, dense);
  lost_ = false;
}

// True for calls that launch kernels of the active parameters.
bool Optimizer::Impl::Sharding::is_launch() const {
  return call_ == RankCall::step || call_ == RankCall::train || call_ == RankCall::eval;
}

void Optimizer::Impl::Sharding::find_ids() {
  index_of_id_.clear();
  for (const StepParam* const param : impl_.active)
    index_of_id_[param->buffers->id] = index_of(*param);
}

void Optimizer::Impl::Sharding::check_device(const ParameterName& name) const {
  const torch::Tensor &p = parameter(name), &first = parameter(names_.front());
  TORCH_CHECK(p.device() == first.device(), "jitstep: shard() needs all parameters on one device, ",
              "but ", describe(p, name), " is on ", p.device(), ", and ",
              describe(first, names_.front()), " is on ", first.device(),
              ". Use one optimizer per device.");
}

std::uint64_t Optimizer::Impl::Sharding::digest_of(const std::shared_ptr<const jit::Plan>& plan) {
  const auto [known, added] = plans_.try_emplace(plan.get(), plan, 0);
  if (added)
    known->second.second = RankHash().add(plan->name).add(jit::to_string(plan->spec)).value();
  return known->second.second;
}

std::uint64_t Optimizer::Impl::Sharding::digest_of_group(std::size_t group) const {
  const HyperParams& params = impl_.hyper_params[group];
  RankHash digest;
  digest.add(params.hyper).add(params.initial).add(params.seed).add(params.lr != nullptr);
  return digest.add(impl_.extras.found_inf.defined())
      .add(impl_.extras.grad_scale.defined())
      .add(impl_.stepper.is_tuned())
      .value();
}

// What all ranks must have in common for the active parameters.
void Optimizer::Impl::Sharding::add_digests_of_step(std::vector<ParameterDigest>& all) {
  std::vector<std::uint64_t> of_group;
  for (std::size_t g = 0; g < impl_.groups.size(); ++g) of_group.push_back(digest_of_group(g));
  for (const StepParam* const param : impl_.active) {
    ParameterDigest& one = all[index_of(*param)];
    one.options = RankHash()
                      .add(digest_of(param->buffers->plan))
                      .add(of_group[param->name.group])
                      .add(param->buffers->id)
                      .add(param->buffers->t.counted())
                      .value();
    one.gradient = 1;
    for (std::size_t i = 0; param->inputs != nullptr && i < param->inputs->size(); ++i)
      one.gradient = 2 * one.gradient + ((*param->inputs)[i].defined() ? 1 : 0);
  }
}

std::vector<ParameterDigest> Optimizer::Impl::Sharding::digests() {
  std::vector<ParameterDigest> all;
  for (const ParameterName& name : names_) {
    const torch::Tensor& p = parameter(name);
    RankHash shape;
    shape.add(p.sizes()).add(p.strides()).add(p.scalar_type());
    all.push_back({shape.value(), 0, 0});
  }
  if (is_launch())
    add_digests_of_step(all);
  else
    for (std::size_t i = 0; i < names_.size(); ++i)
      all[i].gradient = impl_.find_state(key_of(parameter(names_[i]))) != nullptr ? 1 : 0;
  return all;
}

// A rank that found no infinity skips the step too, and its scaler learns of it.
void Optimizer::Impl::Sharding::share_found_inf() const {
  const torch::Tensor& found = impl_.extras.found_inf;
  if (!found.defined()) return;
  if (impl_.reduction) impl_.reduction->find_infinities(found);
  const torch::Tensor all = ranks_->all_gather(found.reshape({1}).contiguous());
  overwrite(found, all.amax().reshape(found.sizes()));
}

}  // namespace jitstep
