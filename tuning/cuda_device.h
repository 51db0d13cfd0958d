// A GPU as a device to tune on.
#pragma once

#include "tuning/scratch_device.h"

namespace jitstep::tuning {

class CudaMemory;

/// The number of a GPU of this architecture: the first, or the one that is asked for. An Error says which ones there
/// are, or what is missing.
int gpu_of(jit::Engine& engine, const jit::Target& target, std::optional<int> requested);

/// Settings of a device.
struct CudaLimits {
  std::int64_t scratch_bytes = ScratchLimits{}.scratch_bytes;
  double least_seconds = 5e-3;  // as a launch and the wait for its end take about ten microseconds
  double order_seconds = 15;    // for compiling a workload's candidates before the first is tried
};

/// Steps go one after the other on a stream of its own and are timed from outside, when all of them are over. Its walk
/// is a kernel.
class CudaDevice : public ScratchDevice {
 public:
  CudaDevice(jit::Engine& engine, int device, const CudaLimits& limits,
             Clock clock = steady_seconds);
  Model model(const Workload& workload) override;

 private:
  struct Place {
    CudaMemory* memory;  // the machine's
    std::unique_ptr<jit::Backend> backend;
  };
  static Place make_place(jit::Engine& engine, int device);
  CudaDevice(jit::Engine& engine, int device, const CudaLimits& limits, Clock clock, Place index);
  std::function<void()> make_walk(const Workload& workload) override;
  void finish() override;
  void download(void* to, const void* from, std::size_t bytes) override;

  CudaMemory& memory_;
  int device_;
  double order_seconds_;
  Clock clock_;
};

}  // namespace jitstep::tuning
