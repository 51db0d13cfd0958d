// GPU helpers without CUDA's headers: streams and memory through torch, the rest through the driver.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "jit/engine/cuda_driver.h"
#include "jitstep/jit/engine.h"
#include "optim/training.h"

namespace jitstep::tests {

inline const torch::Device kGpu(torch::kCUDA, 0);

inline c10::impl::VirtualGuardImpl gpu_guard() { return c10::impl::VirtualGuardImpl(torch::kCUDA); }
inline c10::Stream current_stream() { return gpu_guard().getStream(kGpu); }
/// A stream of torch's pool, another one in each call.
inline c10::Stream side_stream() { return gpu_guard().getStreamFromGlobalPool(kGpu, false); }

/// A function of the driver by its name in libcuda.so.1.
template <class Function>
Function* driver_function(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* function = library ? dlsym(library, name) : nullptr;
  if (function == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  return reinterpret_cast<Function*>(function);
}

inline Tensors to(const Tensors& tensors, const torch::Device& device) {
  Tensors moved;
  for (const auto& t : tensors) moved.push_back(t.detach().to(device).set_requires_grad(true));
  return moved;
}

/// The gradients of set_gradients() on the CPU, copied to the parameters' device.
inline void set_same_gradients(const Tensors& parameters, int step) {
  torch::manual_seed(1000 + step);
  for (const auto& p : parameters)
    p.mutable_grad() = torch::randn(p.sizes(), p.scalar_type()).to(p.device());
}

template <class Optimizer>
void train_same(Optimizer& optimizer, const Tensors& parameters, int first, int last) {
  for (int step = first; step <= last; ++step) {
    set_same_gradients(parameters, step);
    optimizer.step();
  }
}

inline void expect_same_bits(const Tensors& gpu, const Tensors& cpu) {
  expect_equal(to(gpu, torch::kCPU), cpu);
}

/// Keeps a stream busy with a kernel that waits for a flag in pinned memory, until the stream is released. A watchdog
/// releases it after 20 seconds, so that a host that waits for the stream does not hang.
class Hold {
 public:
  explicit Hold(const c10::Stream& stream)
      : flag_(torch::zeros({1}, torch::dtype(torch::kInt32).pinned_memory(true))) {
    volatile int* flag = flag_.data_ptr<int>();
    kernel()->cuda("hold").launch(stream.native_handle(), 1, 1, &flag);
    watchdog_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      if (done_.wait_for(lock, std::chrono::seconds(20), [this] { return released_; })) return;
      late_ = true;
      *static_cast<volatile int*>(flag_.data_ptr<int>()) = 1;
    });
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  /// Releases the stream. Returns false if the watchdog released it.
  bool release() {
    {
      const std::lock_guard lock(mutex_);
      released_ = true;
      *static_cast<volatile int*>(flag_.data_ptr<int>()) = 1;
    }
    done_.notify_all();
    if (watchdog_.joinable()) watchdog_.join();
    return !late_;
  }

  /// Compiled and loaded in the first call. Do not make that call while a stream is held.
  static std::shared_ptr<const jit::Kernel> kernel() {
    static const auto loaded = [] {
      jit::Engine& engine = jit::default_engine();
      return engine.kernel(
          "extern \"C\" __global__ void hold(const volatile int* flag) { while (*flag == 0); }\n",
          "hold", engine.cuda_target(kGpu.index()), kGpu.index());
    }();
    return loaded;
  }

 private:
  torch::Tensor flag_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool released_ = false, late_ = false;
  std::thread watchdog_;
};

}  // namespace jitstep::tests
