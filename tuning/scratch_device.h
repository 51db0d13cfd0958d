// Common base of tuning devices: scratch tensors in device memory, a jit::Step per configuration, timing of repeated
// steps, and the bandwidth baseline.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "jit/search/scratch_tensors.h"
#include "jitstep/jit/engine.h"
#include "tuning/clock.h"
#include "tuning/tuning_device.h"

namespace jitstep::tuning {

/// Settings of all devices.
struct ScratchLimits {
  std::int64_t scratch_bytes = std::int64_t{4} << 30;
  double least_seconds = 1e-3;  // of a measurement; shorter steps are repeated
};

/// Not thread-safe. The engine must outlive it.
class ScratchDevice : public TuningDevice {
 public:
  /// `bandwidth` is that of the bandwidth baseline: a loop over as many bytes as a step of the workload reads and
  /// writes. It bounds what a configuration can reach.
  const jit::Hardware& hardware() const override { return hardware_; }
  jit::RecordVersions versions(const jit::Plan& plan) override;
  void begin(const Workload& workload) override;
  std::optional<jit::Trial> check(const jit::KernelConfig& candidate) override;
  double seconds(const jit::KernelConfig& config) override;

  /// Seconds of one run of the bandwidth baseline.
  double baseline_seconds();

 protected:
  ScratchDevice(jit::Engine& engine, jit::Hardware hardware, std::unique_ptr<jit::Backend> backend,
                const ScratchLimits& limits, Clock clock);

  jit::Engine& engine() { return engine_; }
  /// Allocates device memory. Each byte is 1.
  std::shared_ptr<void> filled(std::int64_t bytes);

 private:
  /// A function that starts one run of the bandwidth baseline over its own memory.
  virtual std::function<void()> make_baseline(const Workload& workload) = 0;
  /// Waits for all started work.
  virtual void finish() = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;

  jit::Step& step_of(const jit::KernelConfig& config);
  double timed(const std::function<void()>& work, int repeats);
  double timed_step(const jit::KernelConfig& config, int repeats);
  double baseline_bandwidth();
  jit::KernelConfig default_config() const;

  jit::Engine& engine_;
  jit::Hardware hardware_;
  std::unique_ptr<jit::Backend> backend_;
  ScratchLimits limits_;
  Clock clock_;
  std::optional<Workload> workload_;
  std::unique_ptr<jit::ScratchTensors> scratch_;
  std::map<jit::KernelConfig, jit::Step> steps_;
  std::function<void()> baseline_;
  int repeats_ = 1;
};

}  // namespace jitstep::tuning
