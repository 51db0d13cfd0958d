// Steps of an optimizer whose state several ranks share: each rank steps its part of every parameter.
#include <torch/types.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "jit/step/partition.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/spec.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/shard/part_exchange.h"
#include "optim/shard/process_group.h"
#include "optim/shard/state_gather.h"
#include "optim/shard/whole_transform.h"
#include "optim/state/slots_by_name.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// True if element i in storage order is at address i, for a tensor with the parameter's sizes.
bool is_dense_like(const torch::Tensor& p, const torch::Tensor& values) {
  const jit::Shape shape = shape_of(p);
  return jit::is_dense({shape.sizes, shape_of(values).strides}, jit::compact_strides(shape));
}

// The elements of a dense tensor in storage order.
torch::Tensor range_of(const torch::Tensor& values, const jit::Part& part) {
  return values.detach().as_strided({part.count()}, {1}, values.storage_offset() + part.first);
}

// The gradient's elements, in the parameter's storage order.
torch::Tensor gradient_range(const torch::Tensor& p, const torch::Tensor& grad,
                             const jit::Part& part) {
  if (is_dense_like(p, grad)) return range_of(grad, part);
  const jit::Shape shape = shape_of(p);
  torch::Tensor ordered = torch::empty_strided(shape.sizes, jit::compact_strides(shape),
                                               grad.options().requires_grad(false));
  ordered.copy_(grad.detach().view(shape.sizes));
  return range_of(ordered, part).clone();
}

}  // namespace

class Optimizer::Impl::Sharding final : public StepRanks {
 public:
  Sharding(Impl& impl, std::shared_ptr<RankGroup> ranks)
      : impl_(impl), ranks_(std::move(ranks)), partition_({}, 1) {
    std::vector<jit::PartitionedTensor> tensors;
    for (std::size_t g = 0; g < impl_.groups.size(); ++g)
      for (const ParamRecord& record : impl_.groups[g].param_records) {
        if (record.repeated) continue;
        const torch::Tensor& p = parameter(record.name);
        const auto plan =
            with_context(p, record.name, [&] { return impl_.groups[g].record.plan(p); });
        index_[record.key] = names_.size();
        names_.push_back(record.name);
        tensors.push_back({p.numel(), is_dense_like(p, p) ? jit::part_grain(*plan) : 0});
      }
    partition_ = jit::Partition(tensors, ranks_->size());
    for (const ParameterName& name : names_) check_device(name);
  }

  RankGroup& ranks() const { return *ranks_; }
  const jit::Partition& partition() const { return partition_; }
  const std::vector<ParameterName>& names() const { return names_; }
  std::size_t index_of(const void* key) const { return index_.at(key); }
  std::size_t index_of(const StepParam& param) const {
    return index_of(static_cast<const ParamRecord&>(param).key);
  }
  const jit::Part& part(const void* key) const {
    return partition_.part(ranks_->rank(), index_of(key));
  }
  const torch::Tensor& parameter(const ParameterName& name) const {
    return impl_.param_groups()[name.group].params()[name.index];
  }

  // Runs a call that all ranks make. An error before the ranks agree is reported to the others.
  void run(RankCall call, const std::function<void()>& action) {
    TORCH_CHECK(
        !lost_ || call == RankCall::load, "jitstep: the parameters of this rank are not those ",
        "of its state, because an earlier exchange of parameters failed. Load a checkpoint.");
    call_ = call;
    agreed_ = false;
    try {
      action();
      agree();
    } catch (...) {
      if (!std::exchange(agreed_, true)) report_failure(*ranks_);
      throw;
    }
    if (call == RankCall::load) lost_ = false;
  }

  void agree() override {
    if (std::exchange(agreed_, true)) return;
    if (is_launch()) find_ids();
    check_same(*ranks_, call_, digests(),
               [&](std::size_t i) { return describe(parameter(names_[i]), names_[i]); });
    if (call_ == RankCall::step) share_found_inf();
  }

  void exchange(const std::vector<jit::PartialSums>& partials) override {
    gather_partial_sums(
        *ranks_, partition_, [&](int id) { return index_of_id_.at(id); }, partials,
        impl_.active.front()->p->device());
  }

  void transform(const std::vector<TransformedPart>& parts,
                 const TransformOfGroup& transform) override {
    std::vector<PartialValues> all;
    std::vector<const StepParam*> params;  // of `all`
    for (const StepParam* const param : impl_.active) {
      if (!impl_.groups[param->name.group].transform) continue;
      const auto own = std::find_if(parts.begin(), parts.end(),
                                    [&](const auto& one) { return one.param == param; });
      const torch::Tensor& p = parameter(param->name);
      all.push_back({index_of(*param), param->name.group, p, real_dtype(dtype_of(p)),
                     own == parts.end() ? torch::Tensor() : own->values});
      params.push_back(param);
    }
    transform_whole(*ranks_, partition_, all,
                    [&](std::size_t group, const std::vector<WholeValues>& values) {
                      std::vector<TransformedPart> parameters;
                      for (const WholeValues& one : values)
                        parameters.push_back({params[one.index], one.values});
                      transform(group, parameters);
                    });
  }

  // Parameters with the parts of all ranks. If it fails, own state is ahead of the other ranks' parts.
  void share_parameters() {
    lost_ = true;
    std::vector<SharedTensor> flat;
    std::vector<std::pair<torch::Tensor, torch::Tensor>> gaps;  // parameters, and dense copies
    for (const StepParam* const param : impl_.active) {
      const torch::Tensor p = parameter(param->name).detach();
      if (p.numel() == 0) continue;
      torch::Tensor dense = p;
      if (!is_dense_like(p, p)) gaps.emplace_back(p, dense = p.contiguous());
      flat.push_back(
          {index_of(*param), dense.as_strided({p.numel()}, {1}, dense.storage_offset())});
    }
    gather_parts(*ranks_, partition_, flat);
    for (const auto& [p, dense] : gaps) p.copy_(dense);
    lost_ = false;
  }

 private:
  // True for calls that launch kernels of the active parameters.
  bool is_launch() const {
    return call_ == RankCall::step || call_ == RankCall::train || call_ == RankCall::eval;
  }
  void find_ids() {
    index_of_id_.clear();
    for (const StepParam* const param : impl_.active)
      index_of_id_[param->buffers->id] = index_of(*param);
  }
  void check_device(const ParameterName& name) const {
    const torch::Tensor &p = parameter(name), &first = parameter(names_.front());
    TORCH_CHECK(p.device() == first.device(),
                "jitstep: shard() needs all parameters on one device, ", "but ", describe(p, name),
                " is on ", p.device(), ", and ", describe(first, names_.front()), " is on ",
                first.device(), ". Use one optimizer per device.");
  }

  std::uint64_t digest_of(const std::shared_ptr<const jit::Plan>& plan) {
    const auto [known, added] = plans_.try_emplace(plan.get(), plan, 0);
    if (added)
      known->second.second = Digest().add(plan->name).add(jit::to_string(plan->spec)).value();
    return known->second.second;
  }

  std::uint64_t digest_of_group(std::size_t group) const {
    const HyperParams& params = impl_.hyper_params[group];
    Digest digest;
    digest.add(params.hyper).add(params.initial).add(params.seed).add(params.lr != nullptr);
    return digest.add(impl_.extras.found_inf.defined())
        .add(impl_.extras.grad_scale.defined())
        .value();
  }

  std::vector<ParameterDigest> digests() {
    std::vector<ParameterDigest> all;
    for (const ParameterName& name : names_) {
      const torch::Tensor& p = parameter(name);
      Digest shape;
      shape.add(p.sizes()).add(p.strides()).add(p.scalar_type());
      all.push_back({shape.value(), 0, 0});
    }
    std::vector<std::uint64_t> of_group;
    for (std::size_t g = 0; g < impl_.groups.size(); ++g) of_group.push_back(digest_of_group(g));
    if (is_launch())
      for (const StepParam* const param : impl_.active) {
        ParameterDigest& one = all[index_of(*param)];
        one.options = Digest()
                          .add(digest_of(param->buffers->plan))
                          .add(of_group[param->name.group])
                          .add(param->buffers->id)
                          .add(param->buffers->t.counted())
                          .value();
        one.gradient = 1;
        for (std::size_t i = 0; param->inputs != nullptr && i < param->inputs->size(); ++i)
          one.gradient = 2 * one.gradient + ((*param->inputs)[i].defined() ? 1 : 0);
      }
    else
      for (std::size_t i = 0; i < names_.size(); ++i)
        all[i].gradient = impl_.held_state(key_of(names_[i])) != nullptr ? 1 : 0;
    return all;
  }

  void* key_of(const ParameterName& name) const {
    return impl_.groups[name.group].param_records[name.index].key;
  }

  // A rank that found no infinity skips the step too, and its scaler learns of it.
  void share_found_inf() const {
    const torch::Tensor& found = impl_.extras.found_inf;
    if (!found.defined()) return;
    const torch::Tensor all = ranks_->all_gather(found.reshape({1}).contiguous());
    found.copy_(all.amax().reshape(found.sizes()));
  }

  Impl& impl_;
  std::shared_ptr<RankGroup> ranks_;
  jit::Partition partition_;
  std::vector<ParameterName> names_;  // by index in the partition
  std::unordered_map<const void*, std::size_t> index_;
  std::unordered_map<int, std::size_t> index_of_id_;  // of active parameters
  std::unordered_map<const jit::Plan*, std::pair<std::shared_ptr<const jit::Plan>, std::uint64_t>>
      plans_;  // and their digests
  RankCall call_ = RankCall::step;
  bool agreed_ = true;  // in this call
  bool lost_ = false;   // parameters are not those of the state
};

void Optimizer::shard(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  impl_->shard(ranks_of(group));
}

std::pair<std::int64_t, std::int64_t> Optimizer::part_of(const torch::Tensor& parameter) const {
  const auto* const key = parameter.unsafeGetTensorImpl();
  TORCH_CHECK(impl_->ids.contains(const_cast<c10::TensorImpl*>(key)),
              "jitstep: part_of: the tensor is not a parameter of this optimizer. Pass one of its "
              "parameters.");
  if (!impl_->sharding) return {0, parameter.numel()};
  const jit::Part& part = impl_->sharding->part(key);
  return {part.first, part.last};
}

// State that exists already is cut.
void Optimizer::Impl::shard(std::shared_ptr<RankGroup> ranks) {
  const OwnOperations own;
  TORCH_CHECK(!sharding, "jitstep: shard() was called before. Make a new optimizer to use another ",
              "group.");
  TORCH_CHECK(!hooks,
              "jitstep: shard() does not work with step_in_backward(): ranks must take a step ",
              "together. Call step_in_backward(false) first.");
  if (!groups_unchanged()) sync_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) refresh_options(g);
  start_gathering();
  sharding = std::make_shared<Sharding>(*this, std::move(ranks));
  try {
    together(RankCall::shard, [&] {
      for (const ParameterName& name : sharding->names()) {
        const torch::Tensor& p = sharding->parameter(name);
        const ParamRecord& record = groups[name.group].param_records[name.index];
        const GroupRecord& group = groups[name.group].record;
        auto* const state = dynamic_cast<ParamState*>(held_state(record.key));
        if (state == nullptr) continue;
        with_context(p, name, [&] {
          const auto plan = group.plan(p);
          ParamState::Data& data = state->data();
          data.bind(p, plan, data.has_id() ? data.buffers.id : record.id,
                    group.initial(*plan, record.number));
        });
      }
    });
  } catch (...) {
    sharding.reset();
    throw;
  }
  for (const ParameterName& name : sharding->names()) {
    ParamRecord& record = groups[name.group].param_records[name.index];
    record.revision = -1;
    if (auto* const state = dynamic_cast<ParamState*>(held_state(record.key)))
      keep_part(name.group, name.index, state->data());
  }
  stepper = Stepper();
  stepper.share(sharding.get());
  tuning_is_settled = false;
  if (!agree_on_tuning)
    agree_on_tuning = [group = sharding](const std::vector<double>& seconds) {
      const torch::Tensor all = group->ranks().all_gather(torch::tensor(seconds, torch::kFloat64));
      const double* const first = all.const_data_ptr<double>();  // rank 0's
      return std::vector<double>(first, first + seconds.size());
    };
}

void Optimizer::Impl::together(RankCall call, const std::function<void()>& action) {
  if (sharding)
    sharding->run(call, action);
  else
    action();
}

void Optimizer::Impl::agree() {
  if (sharding) sharding->agree();
}

void Optimizer::Impl::check_groups_fixed() const {
  TORCH_CHECK(!sharding,
              "jitstep: the parameters of an optimizer cannot change after shard(): every ",
              "rank has parts of them. Add all parameters before shard().");
}

// Finds the part of a parameter, whose storage may have moved.
void Optimizer::Impl::find_part(ParamRecord& record, const torch::Tensor& p) const {
  if (!sharding) return;
  const std::size_t index = sharding->index_of(record.key);
  const jit::Part& own = sharding->part(record.key);
  std::int64_t elements = 0;
  for (int rank = 0; rank < sharding->partition().ranks(); ++rank)
    elements = std::max(elements, sharding->partition().part(rank, index).last);
  const bool is_cut = own.count() != elements;
  TORCH_CHECK(p.numel() == elements && (!is_cut || own.count() == 0 || is_dense_like(p, p)),
              "jitstep: ", describe(p, record.name),
              " has another size or layout than when shard() ",
              "was called. Make a new optimizer and call shard() again.");
  if (!is_cut) return record.part.reset();
  const void* const before = record.part.defined() ? record.part.const_data_ptr() : nullptr;
  record.part =
      own.count() == 0 ? torch::empty({0}, p.options().requires_grad(false)) : range_of(p, own);
  if (record.part.const_data_ptr() != before)
    record.revision = -1;  // bind the state to the new part
}

// Formats may change after shard(). The parts do not.
void Optimizer::Impl::check_part(const ParamRecord& record, const jit::Plan& plan) const {
  if (!sharding || !record.part.defined() || record.part.numel() == 0) return;
  TORCH_CHECK(jit::part_grain(plan) > 0, "jitstep: ", describe(*record.p, record.name),
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
      const torch::Tensor& p = *record.p;
      if (record.grad == &p) record.grad = &record.part;
      if (record.grad != nullptr && record.grad != &record.part) {
        const jit::Part& own = sharding->part(record.key);
        record.part_grad = own.count() == 0
                               ? torch::empty({0}, record.grad->options().requires_grad(false))
                               : gradient_range(p, *record.grad, own);
        record.grad = &record.part_grad;
        record.g = record.part_grad.const_data_ptr();
      }
      if (record.grad != nullptr && record.inputs != nullptr) {
        record.part_inputs = *record.inputs;
        for (torch::Tensor& one : record.part_inputs)
          if (one.defined()) one = range_of(one, sharding->part(record.key));
        record.inputs = &record.part_inputs;
      }
      record.p = &record.part;
    }
}

void Optimizer::Impl::share_parameters() {
  if (!sharding) return;
  sharding->share_parameters();
  for (StepParam* const param : active) {
    auto& record = static_cast<ParamRecord&>(*param);
    record.part_grad.reset();
    record.part_inputs.clear();
    const torch::Tensor& p = sharding->parameter(param->name);
    if (!p.is_inference() && record.part.defined()) p.unsafeGetTensorImpl()->bump_version();
    if (extras.clears && p.grad().defined()) p.grad().detach().zero_();  // it may be a view
  }
}

// The state of a whole parameter, or new state, becomes that of this rank's part.
void Optimizer::Impl::keep_part(std::size_t g, std::size_t index, ParamState::Data& state) const {
  const ParamRecord& record = groups[g].param_records[index];
  const torch::Tensor& p = param_groups()[g].params()[index];
  StateBuffers& buffers = state.buffers;
  if (p.numel() == 0 || buffers.whole == p.numel()) return;
  const jit::Part& own = sharding->part(record.key);
  if (buffers.plan != nullptr && state.same_layout(p)) return state.keep_part(p, own);
  buffers.first = own.first;
  buffers.whole = p.numel();
}

// The states of whole parameters, on rank 0. False on other ranks.
bool Optimizer::Impl::gather_states(std::map<void*, ParamState>& whole) const {
  for (const ParameterName& name : sharding->names()) {
    void* const key = groups[name.group].param_records[name.index].key;
    const auto* const state = dynamic_cast<const ParamState*>(held_state(key));
    if (state == nullptr) continue;
    const torch::Tensor& p = sharding->parameter(name);
    TORCH_CHECK(state->data().buffers.plan != nullptr, "jitstep: the state of ", describe(p, name),
                " was replaced since the last step. Call step() before save().");
    StateBuffers all = gather_state(sharding->ranks(), sharding->partition(),
                                    sharding->index_of(key), state->data().buffers, p);
    if (sharding->ranks().rank() != 0) continue;
    ParamState::Data& made = whole.insert_or_assign(key, *state).first->second.data();
    made.buffers = std::move(all);
    made.layout = {p.sizes().vec(), p.strides().vec(), p.scalar_type(), p.device()};
  }
  return sharding->ranks().rank() == 0;
}

// The weights of one parameter, from the parts of all ranks.
torch::Tensor Optimizer::Impl::shared_weights(const void* key, const torch::Tensor& p,
                                              const ParamState* state) const {
  torch::Tensor whole = p.detach().to(torch::kFloat32, false, true);
  const bool more = state != nullptr && state->data().buffers.residual.defined() && p.numel() > 0;
  if (!more) return whole;
  const jit::Part& own = sharding->part(key);
  torch::Tensor flat = torch::empty({p.numel()}, whole.options());
  if (own.count() > 0) {
    const torch::Tensor part = state->weights().to(torch::kFloat32);
    flat.narrow(0, own.first, own.count()).copy_(part.as_strided({own.count()}, {1}));
  }
  gather_parts(sharding->ranks(), sharding->partition(), {{sharding->index_of(key), flat}});
  if (p.dim() == 0) return flat.view(torch::IntArrayRef());
  return flat.as_strided(p.sizes(), jit::compact_strides(shape_of(p)));
}

}  // namespace jitstep
