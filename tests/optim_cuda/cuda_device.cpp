// A CUDA device for a torch build without CUDA. Memory and streams come from the process's CUDA driver
// (support/ptx_driver). Operations run on the CPU, on copies. The device registers itself as out-of-tree back ends do,
// so that tensors, streams and the front end take the same code paths as with a GPU.
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, std::size_t);
int cuMemFree_v2(unsigned long long);
int cuMemcpyHtoDAsync_v2(unsigned long long, const void*, std::size_t, void*);
int cuMemcpyDtoH_v2(void*, unsigned long long, std::size_t);
int cuStreamCreate(void**, unsigned);
int cuCtxSynchronize();
int cuStreamSynchronize(void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cuEventCreate(void**, unsigned);
int cuEventRecord(void*, void*);
int cuEventDestroy_v2(void*);
}

#include "optim_cuda/pinned_blocks.h"

namespace jitstep::tests {
namespace {

const c10::Device kDevice(c10::kCUDA, 0);
const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);
thread_local void* current_stream = nullptr;  // null: the default stream

void check(int code, const char* call) { TORCH_CHECK(code == 0, call, " answers ", code); }

// Once per thread.
void enter_context() {
  thread_local const bool entered = [] {
    void* context = nullptr;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    return true;
  }();
  (void)entered;
}

// ---- memory and streams -------------------------------------------------------------------------

unsigned long long address_of(const void* memory) {
  return reinterpret_cast<unsigned long long>(memory);
}

// On the current stream, like torch's own copies.
void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cuMemcpyHtoDAsync_v2(address_of(to), from, bytes, current_stream), "cuMemcpyHtoDAsync");
}
void download(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cuStreamSynchronize(current_stream), "cuStreamSynchronize");
  check(cuMemcpyDtoH_v2(to, address_of(from), bytes), "cuMemcpyDtoH");
}

class DriverAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    enter_context();
    unsigned long long memory = 0;
    if (bytes > 0) check(cuMemAlloc_v2(&memory, bytes), "cuMemAlloc");
    auto* const data = reinterpret_cast<void*>(memory);
    return {data, data, raw_deleter(), kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) {
      enter_context();
      if (memory != nullptr) cuMemFree_v2(address_of(memory));
    };
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::vector<char> through(bytes);
    download(through.data(), from, bytes);
    upload(to, through.data(), bytes);
  }
};

DriverAllocator& allocator() {
  static auto& one = *new DriverAllocator;
  return one;
}

// Ordinary memory, whose sizes it records. The driver copies at once, so memory may be freed at any time.
class PinnedAllocator : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = bytes > 0 ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
    const std::lock_guard lock(mutex_);
    if (data != nullptr) sizes_[data] = bytes;
    return {data, data, raw_deleter(), c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  void free(void* data) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(data);
    std::free(data);
  }
  bool has(const void* address) {
    const std::lock_guard lock(mutex_);
    auto after = sizes_.upper_bound(const_cast<void*>(address));
    if (after == sizes_.begin()) return false;
    const auto& [data, bytes] = *--after;
    return static_cast<const char*>(address) < static_cast<const char*>(data) + bytes;
  }
  std::vector<std::size_t> sizes() {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> all;
    for (const auto& [data, bytes] : sizes_) all.push_back(bytes);
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
};

PinnedAllocator& pinned_allocator() {
  static auto& one = *new PinnedAllocator;
  return one;
}

c10::DeleterFnPtr PinnedAllocator::raw_deleter() const {
  return [](void* data) {
    if (data != nullptr) pinned_allocator().free(data);
  };
}

class DriverGuard : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return as_stream(current_stream); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return as_stream(std::exchange(current_stream, getStreamNativeHandle(stream)));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  c10::Stream getDefaultStream(c10::Device) const override { return as_stream(nullptr); }
  // A new stream, which exists until the process ends.
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    enter_context();
    void* stream = nullptr;
    check(cuStreamCreate(&stream, 1), "cuStreamCreate");
    return as_stream(stream);
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    enter_context();
    check(cuStreamSynchronize(getStreamNativeHandle(stream)), "cuStreamSynchronize");
  }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    enter_context();
    check(cuCtxSynchronize(), "cuCtxSynchronize");
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    enter_context();
    if (*event == nullptr) check(cuEventCreate(event, 0), "cuEventCreate");
    check(cuEventRecord(*event, getStreamNativeHandle(stream)), "cuEventRecord");
    const std::lock_guard lock(mutex_);
    stream_of_[*event] = getStreamNativeHandle(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    enter_context();
    check(cuStreamWaitEvent(getStreamNativeHandle(stream), event, 0), "cuStreamWaitEvent");
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void* event) const override {
    enter_context();
    const std::lock_guard lock(mutex_);
    check(cuStreamSynchronize(stream_of_.at(event)), "cuStreamSynchronize");
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    enter_context();
    if (event != nullptr) cuEventDestroy_v2(event);
  }

 private:
  static inline std::mutex mutex_;
  static inline std::map<void*, void*> stream_of_;  // where an event was recorded last
  static c10::Stream as_stream(void* handle) {
    return c10::Stream(c10::Stream::UNSAFE, kDevice, reinterpret_cast<c10::StreamId>(handle));
  }
};

// ---- operations ---------------------------------------------------------------------------------

// Host copies of the tensors of one operation. Tensors that share storage share a copy.
class OnHost {
 public:
  torch::Tensor take(const torch::Tensor& t, bool written) {
    if (!t.defined() || !t.is_cuda()) return keep(t, t);
    Copy& copy = copy_of(t);
    copy.written |= written;
    const torch::Tensor view = torch::empty({0}, t.options().device(torch::kCPU));
    view.unsafeGetTensorImpl()->set_storage_keep_dtype(copy.host);
    view.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    return keep(view, t);
  }

  void send_written() {
    for (auto& [_, copy] : copies_) {
      if (!copy.written) continue;
      if (copy.host.nbytes() > copy.device.nbytes()) {  // an operation has resized its result
        copy.device.set_data_ptr(allocator().allocate(copy.host.nbytes()));
        copy.device.set_nbytes(copy.host.nbytes());
      }
      upload(copy.device.mutable_data(), copy.host.data(), copy.host.nbytes());
    }
    for (const auto& [here, there] : taken_)
      if (here.defined() && here.sizes() != there.sizes())
        there.unsafeGetTensorImpl()->set_sizes_and_strides(here.sizes(), here.strides(),
                                                           here.storage_offset());
  }

  // Returns the argument itself, a view of one, or a new tensor.
  torch::Tensor give(const torch::Tensor& result) const {
    if (!result.defined()) return result;
    for (const auto& [here, there] : taken_)
      if (here.is_same(result)) return there;
    for (const auto& [_, copy] : copies_)
      if (result.has_storage() && result.storage().is_alias_of(copy.host))
        return view(result, copy);
    return fresh(result);
  }

 private:
  struct Copy {
    c10::Storage device, host;
    c10::DispatchKeySet keys;
    bool written = false;
  };

  torch::Tensor keep(const torch::Tensor& here, const torch::Tensor& there) {
    taken_.emplace_back(here, there);
    return here;
  }
  Copy& copy_of(const torch::Tensor& t) {
    const c10::Storage& storage = t.storage();
    const auto [found, is_new] = copies_.try_emplace(storage.unsafeGetStorageImpl());
    if (is_new) {
      const auto bytes = static_cast<std::int64_t>(storage.nbytes());
      found->second.device = storage;
      found->second.keys = t.key_set();
      found->second.host = torch::empty({bytes}, torch::kUInt8).storage();
      download(found->second.host.mutable_data(), storage.data(), storage.nbytes());
    }
    return found->second;
  }
  static torch::Tensor view(const torch::Tensor& result, const Copy& copy) {
    auto made = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(copy.device), copy.keys, result.dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(),
                                                      result.storage_offset());
    return made;
  }
  static torch::Tensor fresh(const torch::Tensor& result) {
    const torch::Tensor dense = result.contiguous();
    torch::Tensor made = at::detail::empty_generic(dense.sizes(), &allocator(), kKeys,
                                                   dense.scalar_type(), std::nullopt);
    upload(made.data_ptr(), dense.data_ptr(), dense.nbytes());
    return made;
  }

  std::map<const void*, Copy> copies_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> taken_;  // host copy and original
};

c10::IValue taken(OnHost& host, const c10::IValue& value, bool written) {
  if (value.isTensor()) return host.take(value.toTensor(), written);
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(c10::kCPU);
  if (value.isTensorList()) {
    c10::List<torch::Tensor> all;
    for (const torch::Tensor& t : value.toTensorVector()) all.push_back(host.take(t, written));
    return all;
  }
  return value;
}

c10::IValue given(const OnHost& host, const c10::IValue& value) {
  if (value.isTensor()) return host.give(value.toTensor());
  if (value.isTensorList()) {
    c10::List<torch::Tensor> all;
    for (const torch::Tensor& t : value.toTensorVector()) all.push_back(host.give(t));
    return all;
  }
  return value;
}

void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  enter_context();
  OnHost host;
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* const alias = arguments[i].alias_info();
    (*stack)[first + i] = taken(host, (*stack)[first + i], alias != nullptr && alias->isWrite());
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  host.send_written();
  for (std::size_t i = first; i < stack->size(); ++i) (*stack)[i] = given(host, (*stack)[i]);
}

torch::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                    std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                    std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

torch::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                            std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                            std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

at::Tensor& set_storage(at::Tensor& t, at::Storage storage, std::int64_t offset,
                        at::IntArrayRef size, at::IntArrayRef stride) {
  t.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return t;
}

// Nothing to do: the driver executes at once, so no stream still uses memory that is freed.
void record_stream(at::Tensor&, c10::Stream) {}

// autograd queries these before it starts a thread for the device. torch finds the class by its name.
struct CUDAHooks : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Device getDeviceFromPtr(void*) const override { return kDevice; }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  bool isPinnedPtr(const void* data) const override { return pinned_allocator().has(data); }
};

const bool allocates = (c10::SetAllocator(c10::kCUDA, &allocator()),
                        at::setHostAllocator(c10::kCUDA, &pinned_allocator()), true);
C10_REGISTER_GUARD_IMPL(CUDA, DriverGuard)
using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks)
TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_host>());
}
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  // torch's own implementation for all devices would look for a kernel of each device.
  m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&on_host>());
}

}  // namespace

std::vector<std::size_t> pinned_blocks() { return pinned_allocator().sizes(); }

}  // namespace jitstep::tests
