#include "optim/tensor/backends.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <filesystem>

#include "jit/base/fork_safe_map.h"
#include "jit/base/text.h"
#include "jit/step/cuda_backend.h"
#include "jit/tuning/config_chooser.h"
#include "jitstep/jit/error.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace jitstep {
namespace {

// ThreadSanitizer does not see how OpenMP starts threads and waits for them. The addresses stand for all such places.
#ifdef __SANITIZE_THREAD__
void follow(void* sync) { __tsan_acquire(sync); }
void precede(void* sync) { __tsan_release(sync); }
#else
void follow(void*) {}
void precede(void*) {}
#endif

// at::parallel_for is a template. It is serial unless the including file is compiled with OpenMP.
// A tensor iterator is compiled into libtorch and uses torch's thread pool. This one iterates over
// `count` bytes that it never reads. Their addresses are the loop indices.
void torch_parallel_for(std::int64_t count, std::int64_t grain,
                        const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= grain || jit::forked_from_threads()) return body(0, count);
  static char origin, start, end;
  const torch::Tensor bytes = at::from_blob(&origin, {count}, torch::kUInt8);
  const auto run = [&](char** at, const std::int64_t*, std::int64_t n, std::int64_t) {
    follow(&start);  // before anything of the calling thread is read
    const std::int64_t begin = at[0] - &origin;
    body(begin, begin + n);
    precede(&end);
  };
  precede(&start);  // after `run` is written
  at::TensorIteratorConfig().add_const_input(bytes).build().for_each(run, grain);
  follow(&end);
}

// The NVRTC package from PyPI is in site-packages/nvidia. libc10.so is in site-packages/torch/lib.
void add_nvrtc_beside_torch(jit::Engine& engine) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&c10::GetAllocator), &info) == 0) return;
  const auto torch_lib = std::filesystem::path(info.dli_fname).parent_path();
  engine.add_nvrtc_folder((torch_lib / "../..").lexically_normal().string());
}

// Torch's current stream and its caching allocator.
class TorchCudaHost : public jit::CudaHost {
 public:
  explicit TorchCudaHost(torch::Device device) : device_(device) {}

  void* stream() override { return current_stream(device_).native_handle(); }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    const auto options = torch::dtype(torch::kUInt8).device(device_);
    torch::Tensor tensor = torch::empty({static_cast<std::int64_t>(bytes)}, options);
    void* const data = tensor.data_ptr();
    return {data, TensorDeleter{std::move(tensor)}};
  }

  void record_stream(const std::shared_ptr<void>& memory) override {
    if (auto* const deleter = std::get_deleter<TensorDeleter>(memory))
      deleter->tensor.record_stream(current_stream(device_));
  }

 private:
  // Owns the tensor, so that its memory lives as long as the shared_ptr.
  struct TensorDeleter {
    torch::Tensor tensor;
    void operator()(void*) { tensor.reset(); }
  };

  torch::Device device_;
};

// Tuning records are for a number of threads.
int threads_of_steps() { return std::min(at::get_num_threads(), jit::host_hardware().units); }

using Backends = jit::ForkSafeMap<std::string, std::unique_ptr<jit::Backend>>;

// Never destroyed.
Backends& backends() {
  static Backends& only = *new Backends;
  return only;
}

[[maybe_unused]] const Backends& made_at_load = backends();

std::unique_ptr<jit::Backend> make_backend(const torch::Device& device) {
  jit::Engine& engine = jit::default_engine();
  if (device.is_cpu())
    return std::make_unique<jit::CpuBackend>(engine, torch_parallel_for,
                                             jit::recorded_host_configs(engine, &threads_of_steps));
  if (!device.is_cuda())
    throw jit::Error(
        jit::str_cat("jitstep: no kernels for a parameter on ", device.str(),
                     ": only CPU and CUDA devices have kernels. Move it to one of them."));
  add_nvrtc_beside_torch(engine);
  return std::make_unique<jit::CudaBackend>(engine, device.index(),
                                            std::make_unique<TorchCudaHost>(device));
}

}  // namespace

c10::Stream current_stream(const torch::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

jit::Hardware hardware_of(const torch::Device& device) {
  return device.is_cpu() ? jit::host_hardware(threads_of_steps())
                         : jit::gpu_hardware(jit::default_engine(), device.index());
}

void wait_for_all(const torch::Device& device) {
  if (!device.is_cpu())
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

void download(const torch::Device& device, void* to, const void* from, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  const auto there = torch::dtype(torch::kUInt8).device(device);
  const torch::Tensor source = at::for_blob(const_cast<void*>(from), {size})  // only read
                                   .options(there)
                                   .target_device(device)
                                   .make_tensor();
  torch::from_blob(to, {size}, torch::kUInt8).copy_(source);
}

jit::Backend& backend_of(const torch::Device& device) {
  return *backends().get(device.str(), [&] { return make_backend(device); });
}

}  // namespace jitstep
