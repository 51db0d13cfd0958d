// A GPU as a tuning device.
#pragma once

#include "tuning/scratch_device.h"

namespace jitstep::tuning {

class CudaMemory;

/// The number of a GPU of this architecture: `requested`, or the first one. Throws an Error that lists the GPUs, or
/// names what is missing.
int gpu_of(jit::Engine& engine, const jit::Target& target, std::optional<int> requested);

/// Settings of a CudaDevice.
struct CudaLimits {
  std::int64_t scratch_bytes = ScratchLimits{}.scratch_bytes;
  double least_seconds = 5e-3;  // long, because a launch and its synchronization take about 10 us
  double order_seconds = 15;    // for compiling a workload's candidates before the first trial
};

/// Runs steps in sequence on its own stream, and measures host time until all are complete. The bandwidth baseline is a
/// kernel.
class CudaDevice : public ScratchDevice {
 public:
  CudaDevice(jit::Engine& engine, int device, const CudaLimits& limits,
             Clock clock = steady_seconds);
  Model model(const Workload& workload) override;

 private:
  struct Parts {
    CudaMemory* memory;  // owned by the back end
    std::unique_ptr<jit::Backend> backend;
  };
  static Parts make_parts(jit::Engine& engine, int device);
  CudaDevice(jit::Engine& engine, int device, const CudaLimits& limits, Clock clock, Parts parts);
  std::function<void()> make_baseline(const Workload& workload) override;
  void finish() override;
  void download(void* to, const void* from, std::size_t bytes) override;

  CudaMemory& memory_;
  int device_;
  double order_seconds_;
  Clock clock_;
};

}  // namespace jitstep::tuning
