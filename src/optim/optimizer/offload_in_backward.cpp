// Copies of gradients that backward() makes.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "optim/optimizer/offload.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

constexpr const char* kCopiesInBackward = "an optimizer that copies gradients in backward()";

}  // namespace

void Optimizer::Impl::Offload::copy_in_backward(bool on) {
  if (!on) return hooks_.reset();
  std::vector<torch::Tensor> parameters;
  std::vector<ParameterName> names;
  std::unordered_set<void*> keys;
  for_each_on_gpu([&](ParamRecord& record, const torch::Tensor& p) {
    parameters.push_back(p);
    names.push_back(record.name);
    keys.insert(record.key);
  });
  check_free(parameters);
  hooks_.reset();
  hooks_.emplace(kCopiesInBackward, std::move(parameters),
                 [this, names = std::move(names)](std::size_t i) { on_gradient(names[i]); });
  hooked_ = std::move(keys);
}

// Parameters of the groups count too: one that was on the CPU has no hook yet.
void Optimizer::Impl::Offload::check_hooks(const std::vector<torch::Tensor>& added) const {
  if (!in_backward()) return;
  check_free(added);
  for (const ParamGroup& group : impl_.param_groups()) check_free(group.params());
}

// Throws if another object has the hooks of one of these parameters. Those of this object are removed first.
void Optimizer::Impl::Offload::check_free(const std::vector<torch::Tensor>& parameters) const {
  std::vector<torch::Tensor> others;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(others),
               [this](const torch::Tensor& p) {
                 return p.is_cuda() && !(in_backward() && hooked_.contains(key_of(p)));
               });
  GradHooks::check_free(kCopiesInBackward, others);
}

// If it throws, the gradient stays on the GPU, and the next step() finds it there.
void Optimizer::Impl::Offload::on_gradient(const ParameterName& name) {
  const OwnOperations own;
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(name.group < impl_.groups.size() && impl_.group_unchanged(name.group),
              "jitstep: the parameters of group ", name.group,
              " changed after offload(). Call it again.");
  const torch::Tensor& p = impl_.param_groups()[name.group].params()[name.index];
  check_not_capturing(p.device());
  const torch::Tensor g = is_lazy(p.grad()) ? jitstep::materialized(p.grad()) : p.grad();
  check_gradient(p, g, name);
  ParamRecord& record = impl_.groups[name.group].param_records[name.index];
  if (const auto known = copies_.find(record.key); known != copies_.end())
    check_copied_gradient(known->second, p, name);
  HostCopy& copy = copy_of(record, p);
  add_up(copy);
  const bool is_first = !copy.has_gradient;
  torch::Tensor& to = is_first ? copy.gradient : copy.addend;
  make_buffer(to, p, g.scalar_type());
  start_copy(copy, g, to);
  (is_first ? copy.has_gradient : copy.has_addend) = true;
  p.mutable_grad().reset();
}

// On a stream of its own, so that backward() goes on meanwhile.
void Optimizer::Impl::Offload::start_copy(HostCopy& copy, const torch::Tensor& g,
                                          const torch::Tensor& to) {
  const torch::Device device = g.device();
  const auto [known, is_new] = streams_.try_emplace(device, current_stream(device));
  if (is_new)
    known->second = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  const c10::Stream stream = known->second;
  c10::Event ready(device.type());
  ready.record(current_stream(device));
  ready.block(stream);
  {
    const c10::StreamGuard guard(stream);
    to.copy_(g.detach(), /*non_blocking=*/true);
  }
  g.record_stream(stream);  // its memory is not used again before the copy has ended
  // An event belongs to one GPU, and the parameter may have moved to another.
  if (copy.copied.device_index() >= 0 && copy.copied.device_index() != device.index()) {
    copy.copied.synchronize();
    copy.copied = c10::Event(device.type());
  }
  copy.copied.record(stream);
}

// As autograd adds to p.grad().
void Optimizer::Impl::Offload::add_up(HostCopy& copy) {
  if (!std::exchange(copy.has_addend, false)) return;
  copy.copied.synchronize();
  copy.gradient.add_(copy.addend);
}

const torch::Tensor* Optimizer::Impl::Offload::gradient(ParamRecord& record) {
  const auto found = copies_.find(record.key);
  if (found == copies_.end() || !found->second.has_gradient) return nullptr;
  check_copied_gradient(found->second, *record.parameter, record.name);
  const torch::Tensor& gradient = found->second.gradient;
  if (!record.gradient.same_metadata(gradient)) record.version = ++impl_.versions;
  record.gradient = TensorFingerprint(gradient, TensorFingerprint::Access::read);
  record.g = gradient.const_data_ptr();
  return &gradient;
}

void Optimizer::Impl::Offload::drop_gradients() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, copy] : copies_) copy.has_gradient = copy.has_addend = false;
}

}  // namespace jitstep
