// The CPU as a tuning device.
#pragma once

#include "tuning/scratch_device.h"

namespace jitstep::tuning {

/// A parallel loop over a pool of so many threads, including the caller. It replaces torch's pool, which optimizers
/// use.
jit::ParallelFor thread_pool(int threads);

/// Settings of a HostDevice.
struct HostLimits {
  int threads = 1;
  std::int64_t scratch_bytes = ScratchLimits{}.scratch_bytes;
  double least_seconds = ScratchLimits{}.least_seconds;
};

/// The bandwidth baseline is a loop in the same threads.
class HostDevice : public ScratchDevice {
 public:
  HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock = steady_seconds);
  Model model(const Workload& workload) override;

 private:
  HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock, jit::ParallelFor loop);
  std::function<void()> make_baseline(const Workload& workload) override;
  void finish() override {}
  void download(void* to, const void* from, std::size_t bytes) override;

  jit::ParallelFor parallel_for_;
};

}  // namespace jitstep::tuning
