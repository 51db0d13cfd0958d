// Steps through jit::CudaBackend on a device of the PTX driver. The test allocates memory and creates streams as any
// program does.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulation/step_run.h"
#include "jit/engine/cuda_driver.h"
#include "jit/engine/engine_parts.h"
#include "jit/step/cuda_backend.h"
#include "jitstep/jit/engine.h"
#include "support/ptx_driver/control.h"

// Driver functions that the library does not use, as declared in cuda.h.
extern "C" {
int cuCtxSetCurrent(void* context);
int cuCtxSynchronize();
int cuMemAlloc_v2(unsigned long long* memory, std::size_t bytes);
int cuMemFree_v2(unsigned long long memory);
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamDestroy_v2(void* stream);
int cuStreamSynchronize(void* stream);
}

namespace jitstep::tests {
namespace driver = ptx::driver;

inline constexpr int kNewStreamsOwn = 1;  // CU_STREAM_NON_BLOCKING

/// Allocates memory of a device, and has a current stream.
class Host : public jit::CudaHost {
 public:
  /// Makes the device's context current in this thread.
  explicit Host(jit::Engine& engine, int device = 0)
      : context_(driver_of(engine).primary_context(device)) {
    cuCtxSetCurrent(context_);
  }

  void* stream() override { return stream_; }
  void set_stream(void* stream) { stream_ = stream; }
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    cuCtxSetCurrent(context_);
    unsigned long long memory = 0;
    if (cuMemAlloc_v2(&memory, std::max<std::size_t>(bytes, 1)) != 0) throw std::bad_alloc();
    return {reinterpret_cast<void*>(memory),
            [](void* p) { cuMemFree_v2(reinterpret_cast<unsigned long long>(p)); }};
  }
  void record_stream(const std::shared_ptr<void>&) override { ++recorded; }

  int recorded = 0;

 private:
  void* context_;
  void* stream_ = nullptr;
};

/// A CudaBackend, with copies from its memory to the host.
class Gpu {
 public:
  explicit Gpu(jit::Engine& engine, int device = 0) : engine_(engine), ordinal_(device) {
    auto made = std::make_unique<Host>(engine, device);
    host = made.get();
    backend = std::make_unique<jit::CudaBackend>(engine, device, std::move(made));
  }
  emulation::Device device() {
    return {*backend, [this](void* to, const void* from, std::size_t bytes) {
              cuCtxSetCurrent(driver_of(engine_).primary_context(ordinal_));
              ASSERT_EQ(cuMemcpyDtoH_v2(to, reinterpret_cast<unsigned long long>(from), bytes), 0);
            }};
  }

  Host* host = nullptr;
  std::unique_ptr<jit::CudaBackend> backend;

 private:
  jit::Engine& engine_;
  int ordinal_;
};

}  // namespace jitstep::tests
