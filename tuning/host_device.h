// This machine's processors as a device to tune on.
#pragma once

#include "tuning/scratch_device.h"

namespace jitstep::tuning {

/// Runs parts of a loop in so many threads, which wait for work in between: as torch's pool does for an optimizer.
jit::ParallelFor thread_pool(int threads);

/// Settings of a device.
struct HostLimits {
  int threads = 1;
  std::int64_t scratch_bytes = ScratchLimits{}.scratch_bytes;
  double least_seconds = ScratchLimits{}.least_seconds;
};

/// Its walk is a loop in the same threads.
class HostDevice : public ScratchDevice {
 public:
  HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock = steady_seconds);
  Model model(const Workload& workload) override;

 private:
  HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock, jit::ParallelFor loop);
  std::function<void()> make_walk(const Workload& workload) override;
  void finish() override {}
  void download(void* to, const void* from, std::size_t bytes) override;

  jit::ParallelFor parallel_for_;
};

}  // namespace jitstep::tuning
