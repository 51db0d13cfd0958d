#include "optim/optimizer/offload.h"

#include <utility>

#include "jitstep/jit/layout.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// A parameter's memory without autograd's marks, so that inference tensors can be written too.
torch::Tensor memory_of(const torch::Tensor& p) {
  if (p.numel() == 0) return p.detach();
  return at::for_blob(p.data_ptr(), p.sizes())
      .strides(p.strides())
      .options(p.options().requires_grad(false))
      .target_device(p.device())
      .make_tensor();
}

bool has_form(const torch::Tensor& copy, const torch::Tensor& p) {
  return copy.defined() && copy.scalar_type() == p.scalar_type() && copy.sizes() == p.sizes() &&
         copy.strides() == p.strides();
}

std::vector<std::int64_t> gradient_strides(const torch::Tensor& p) {
  return p.dim() == 0 ? std::vector<std::int64_t>() : jit::compact_strides(shape_of(p));
}

// Whether a copied gradient has the elements of this parameter, in its storage order.
bool is_gradient_of(const torch::Tensor& copy, const torch::Tensor& p) {
  if (copy.sizes() != p.sizes()) return false;
  const std::vector<std::int64_t> strides = gradient_strides(p);
  for (std::int64_t d = 0; d < p.dim(); ++d)
    if (p.size(d) > 1 && copy.stride(d) != strides[static_cast<std::size_t>(d)]) return false;
  return true;
}

// Torch counts no writes to inference tensors.
std::int64_t write_count_of(const torch::Tensor& p) { return p.is_inference() ? -1 : p._version(); }

}  // namespace

const torch::Tensor& Optimizer::Impl::ParamRecord::stepped() const {
  if (host != nullptr) return host->parameter;
  return part.defined() ? part : *parameter;
}

Optimizer::Impl::Offload::~Offload() {
  for (Group& group : impl_.groups)
    for (ParamRecord& record : group.param_records) record.host = nullptr;
}

// ---- copies of parameters -----------------------------------------------------------------------

// Makes the copy, or makes it again if the parameter has another dtype or layout than before.
HostCopy& Optimizer::Impl::Offload::copy_of(ParamRecord& record, const torch::Tensor& p) {
  HostCopy& copy = copies_.try_emplace(record.key, p).first->second;
  if (!has_form(copy.parameter, p)) {
    if (copy.has_gradient)
      memory_.release(copy.parameter);
    else
      release(copy);
    copy.parameter = memory_.empty(p.sizes(), p.strides(), p.scalar_type());
    copy.write_count = -1;              // it has no values yet
    record.version = ++impl_.versions;  // kernel tables have the address of the old copy
  }
  record.host = &copy;
  return copy;
}

void Optimizer::Impl::Offload::release(HostCopy& copy) {
  for (torch::Tensor* const one : {&copy.parameter, &copy.gradient, &copy.addend})
    memory_.release(*one);
  copy.has_gradient = copy.has_addend = false;
  copy.write_count = -1;
}

// Torch's table may still have the state of a removed parameter, which has no other handle to it. Its entry remains
// then, so that no new parameter gets the address, and with it the state.
void Optimizer::Impl::Offload::drop_removed() {
  const std::lock_guard lock(mutex_);
  std::unordered_set<void*> present;
  for (const ParamGroup& group : impl_.param_groups())
    for (const torch::Tensor& p : group.params()) present.insert(key_of(p));
  bool any = false;
  for (auto next = copies_.begin(); next != copies_.end();) {
    const auto one = next++;
    if (present.contains(one->first)) continue;
    any = true;
    release(one->second);
    if (impl_.find_state(one->first) == nullptr) copies_.erase(one);
  }
  if (!any) return;
  await_uploads();
  await_downloads();
  memory_.reclaim();
}

// A parameter that has moved to the CPU needs no copy, but backward() may have copied its gradient before.
void Optimizer::Impl::Offload::drop_moved(const ParamRecord& record) {
  const auto found = copies_.find(record.key);
  if (found == copies_.end() || record.grad == &found->second.gradient) return;
  release(found->second);
  copies_.erase(found);
}

// A buffer for a gradient, in the parameter's storage order. It keeps its memory from step to step.
void Optimizer::Impl::Offload::make_buffer(torch::Tensor& buffer, const torch::Tensor& p,
                                           torch::ScalarType dtype) {
  if (buffer.defined() && buffer.scalar_type() == dtype && is_gradient_of(buffer, p)) return;
  memory_.release(buffer);
  buffer = memory_.empty(p.sizes(), gradient_strides(p), dtype);
}

void Optimizer::Impl::Offload::check_copied_gradient(const HostCopy& copy, const torch::Tensor& p,
                                                     const ParameterName& name) {
  TORCH_CHECK(!copy.has_gradient || is_gradient_of(copy.gradient, p),
              "jitstep: ", describe(p, name), " got another size or memory order after backward() ",
              "copied its gradient to host memory. Call zero_grad() and backward() again.");
}

bool Optimizer::Impl::Offload::is_current(const HostCopy& copy, const torch::Tensor& p) const {
  return copy.write_count >= 0 && copy.write_count == write_count_of(p) &&
         copy.fingerprint.same_storage(p);
}

void Optimizer::Impl::Offload::mark_current(HostCopy& copy, const torch::Tensor& p) const {
  copy.fingerprint = TensorFingerprint(p);
  copy.write_count = write_count_of(p);
}

void Optimizer::Impl::Offload::start_download(HostCopy& copy, const torch::Tensor& p) {
  copy.parameter.copy_(memory_of(p), /*non_blocking=*/true);
  mark_current(copy, p);
  downloading_.insert(current_stream(p.device()));
}

// The host must not write to a copy that a GPU still reads.
void Optimizer::Impl::Offload::await_uploads() const {
  for (const auto& [device, event] : sent_) event.synchronize();
}

void Optimizer::Impl::Offload::await_downloads() {
  for (const c10::Stream& stream : std::exchange(downloading_, {})) stream.synchronize();
  for (const auto& [device, stream] : streams_) stream.synchronize();
}

void Optimizer::Impl::Offload::refresh() {
  const OwnOperations own;
  await_uploads();
  for_each_on_gpu([&](ParamRecord& record, const torch::Tensor& p) {
    HostCopy& copy = copy_of(record, p);
    if (!is_current(copy, p)) start_download(copy, p);
  });
  await_downloads();
  memory_.reclaim();  // all transfers have ended
}

void Optimizer::Impl::Offload::invalidate_copies() {
  for (auto& [key, copy] : copies_) copy.write_count = -1;
}

const torch::Tensor& Optimizer::Impl::Offload::stepped(void* key, const torch::Tensor& p) const {
  const auto found = copies_.find(key);
  const bool has_copy = found != copies_.end() && found->second.parameter.defined();
  return has_copy && p.is_cuda() ? found->second.parameter : p;
}

void Optimizer::Impl::Offload::measure(void* key, MemoryMeasure& report,
                                       MemoryMeasure::Entries& entries) const {
  const auto found = copies_.find(key);
  if (found == copies_.end()) return;
  const HostCopy& copy = found->second;
  report.add_host_copy(entries, MemoryReport::Kind::parameters, copy.parameter);
  report.add_host_copy(entries, MemoryReport::Kind::gradients, copy.gradient);
  report.add_host_copy(entries, MemoryReport::Kind::gradients, copy.addend);
}

// ---- a step -------------------------------------------------------------------------------------

void Optimizer::Impl::Offload::check_not_capturing(const torch::Device& device) {
  const bool capturing = as_torch_error([&] { return backend_of(device).is_capturing(); });
  TORCH_CHECK(!capturing,
              "jitstep: an offloaded optimizer cannot run inside a CUDA graph capture: ",
              "a graph cannot repeat steps on the CPU. Call step() and backward() outside of the ",
              "capture, or make an optimizer without offload().");
}

void Optimizer::Impl::Offload::check_step() const {
  TORCH_CHECK(!impl_.extras.capturable,
              "jitstep: capturable() does not work with offload(): a graph cannot repeat steps on ",
              "the CPU. Call capturable(false).");
  torch::Device last = torch::kCPU;
  std::vector<StepMemory> cleared;
  for (const StepParam* const param : impl_.active) {
    const torch::Tensor& p = *param->p;
    if (p.device() != last && p.is_cuda()) check_not_capturing(last = p.device());
    if (!impl_.extras.clears || !p.grad().defined()) continue;
    cleared.push_back({&p, {&p, param->name}});
    if (has_data(p.grad()))
      cleared.push_back({&p.grad(), {&p, param->name}, StepMemory::Use::cleared});
  }
  jitstep::check_cleared(cleared);
}

void Optimizer::Impl::Offload::fetch() {
  check_step();
  fetch_numbers();
  await_uploads();
  for (auto* const list : {&impl_.active, &impl_.inactive})
    for (StepParam* const param : *list) fetch(static_cast<ParamRecord&>(*param));
  await_downloads();
  memory_.reclaim();
  for (StepParam* const param : impl_.active)
    if (auto& record = static_cast<ParamRecord&>(*param); record.host != nullptr)
      add_up(*record.host);
  find_infinities();
}

void Optimizer::Impl::Offload::fetch(ParamRecord& record) {
  const torch::Tensor& p = *record.parameter;
  record.host = nullptr;
  if (!p.is_cuda()) return drop_moved(record);
  HostCopy& copy = copy_of(record, p);
  if (record.grad == &p)
    record.grad = &copy.parameter;  // a switch of mode
  else if (record.grad != nullptr)
    fetch_gradient(record, copy);
  if (record.grad != nullptr && !is_current(copy, p)) start_download(copy, p);
  fetch_inputs(record, copy);
  record.p = &copy.parameter;
}

void Optimizer::Impl::Offload::fetch_gradient(ParamRecord& record, HostCopy& copy) {
  if (record.grad == &copy.gradient) return;
  TORCH_CHECK(!copy.has_gradient, "jitstep: step() found a gradient of ",
              describe(*record.parameter, record.name),
              " on the GPU, in addition to those that backward() has copied to host memory. Call ",
              "zero_grad(), or use OffloadOptions::in_backward(false) to set gradients.");
  make_buffer(copy.gradient, *record.parameter, record.grad->scalar_type());
  copy.gradient.copy_(record.grad->detach(), /*non_blocking=*/true);
  downloading_.insert(current_stream(record.parameter->device()));
  record.grad = &copy.gradient;
  record.g = copy.gradient.const_data_ptr();
}

void Optimizer::Impl::Offload::fetch_inputs(ParamRecord& record, HostCopy& copy) const {
  if (record.grad == nullptr || record.inputs == nullptr) return;
  copy.inputs = *record.inputs;
  for (torch::Tensor& one : copy.inputs)
    if (one.defined()) one = one.cpu();
  record.inputs = &copy.inputs;
}

void Optimizer::Impl::Offload::fetch_numbers() {
  const auto here = [](const torch::Tensor& number) {
    return number.defined() ? number.cpu() : number;
  };
  grad_scale_ = here(impl_.extras.grad_scale);
  found_inf_ = here(impl_.extras.found_inf);
  lrs_.resize(impl_.lrs.size());
  for (std::size_t g = 0; g < lrs_.size(); ++g) {
    lrs_[g] = here(impl_.lrs[g]);
    if (lrs_[g].defined()) impl_.hyper_params[g].lr = lrs_[g].const_data_ptr();
  }
}

StepExtras Optimizer::Impl::Offload::extras() const {
  StepExtras result = impl_.extras;
  result.grad_scale = grad_scale_;
  result.found_inf = found_inf_;
  result.clears = false;  // clear_gradients() clears those on the GPU
  return result;
}

// A GradScaler has not seen the gradients that backward() has copied.
void Optimizer::Impl::Offload::find_infinities() const {
  if (!found_inf_.defined() || !in_backward()) return;
  torch::Tensor found = found_inf_;
  const torch::Tensor one = torch::ones({}, torch::kFloat32);
  for (const StepParam* const param : impl_.active) {
    const HostCopy* const copy = static_cast<const ParamRecord*>(param)->host;
    if (copy != nullptr && copy->has_gradient)
      at::_amp_foreach_non_finite_check_and_unscale_({copy->gradient}, found, one);
  }
  overwrite(impl_.extras.found_inf, found);
}

// In the order of the current stream, like all that the program does with the parameter.
void Optimizer::Impl::Offload::send(HostCopy& copy, const torch::Tensor& p) {
  overwrite(memory_of(p), copy.parameter, /*non_blocking=*/true);
  bump_version(p);
  mark_current(copy, p);
  sent_.try_emplace(p.device(), c10::kCUDA);
}

void Optimizer::Impl::Offload::send() {
  for (StepParam* const param : impl_.active) {
    const auto& record = static_cast<const ParamRecord&>(*param);
    if (record.host == nullptr) continue;
    send(*record.host, *record.parameter);
    record.host->inputs.clear();
  }
  for (auto& [device, event] : sent_) event.record(current_stream(device));
}

void Optimizer::Impl::Offload::send_all() {
  for_each_on_gpu(
      [&](ParamRecord& record, const torch::Tensor& p) { send(copy_of(record, p), p); });
  for (auto& [device, event] : sent_) event.record(current_stream(device));
}

}  // namespace jitstep
