// This machine's processors as a device to tune on.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "jit/step/scratch_tensors.h"
#include "jitstep/jit/engine.h"
#include "tuning/tuning_device.h"

namespace jitstep::tuning {

/// Runs parts of a loop in so many threads, which wait for work in between: as torch's pool does for an optimizer.
jit::ParallelFor thread_pool(int threads);

/// Seconds since some moment.
using Clock = std::function<double()>;
/// The system's steady one.
double steady_seconds();

/// Settings of a device.
struct HostLimits {
  int threads = 1;
  std::int64_t scratch_bytes = std::int64_t{4} << 30;
  double least_seconds = 1e-3;  // of a measurement: shorter steps are repeated within it
};

class HostDevice : public TuningDevice {
 public:
  HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock = steady_seconds);
  ~HostDevice() override;

  /// Its bandwidth is that of a loop over as many bytes as a step of the workload reads and writes, in these threads:
  /// the limit of what any variant can reach.
  const jit::Hardware& hardware() const override { return hardware_; }
  jit::RecordVersions versions(const jit::Plan& plan) override;
  Model model(const Workload& workload) override;
  void begin(const Workload& workload) override;
  std::optional<jit::Trial> check(const jit::Variant& candidate) override;
  double seconds(const jit::Variant& variant) override;

  /// Seconds of such a loop.
  double walk_seconds();
  /// Bytes that a step of the workload moves: parameters and state both ways, gradients one way.
  static double moved_bytes(const Workload& workload);

 private:
  jit::Step& step_of(const jit::Variant& variant);
  double timed(const std::function<void()>& work, int repeats) const;
  struct Walk;
  std::unique_ptr<Walk> make_walk();
  double walk_bandwidth();

  jit::Engine& engine_;
  HostLimits limits_;
  Clock clock_;
  jit::Hardware hardware_;
  jit::ParallelFor parallel_for_;
  std::unique_ptr<jit::CpuMachine> machine_;
  std::optional<Workload> workload_;
  std::unique_ptr<jit::ScratchTensors> scratch_;
  std::map<jit::Variant, jit::Step> steps_;
  std::unique_ptr<Walk> walk_;
  int repeats_ = 1;
};

}  // namespace jitstep::tuning
