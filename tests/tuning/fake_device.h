// A device that answers from a list of times, so that tests of the tuner need no hardware.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "jit/tuning/tuning_samples.h"
#include "jitstep/jit/error.h"
#include "tuning/tuner.h"

namespace jitstep::tuning::testing {

inline Workload adamw_workload(std::int64_t elements, const std::string& codec = "fp32") {
  const jit::OptionValues options("adamw");
  const jit::Plan plan = jit::resolve(options, jit::CodecChoice{codec});
  return {plan, plan.at_step(options, 1), {{elements}}};
}

class FakeDevice : public TuningDevice {
 public:
  /// Seconds of a configuration's step. All are equal unless a test changes this.
  std::function<double(const jit::KernelConfig&)> time = [](const jit::KernelConfig&) {
    return 1e-3;
  };
  std::map<jit::KernelConfig, jit::TrialStatus> failing;
  std::optional<jit::KernelConfig> on_full_disk;  // cannot be checked
  std::vector<std::string> begun;
  std::map<jit::KernelConfig, int> checked, runs;
  double clock = 0;  // runs advance it
  std::string too_large;
  jit::Hardware is = jit::testing::abacus(1);

  const jit::Hardware& hardware() const override { return is; }
  jit::RecordVersions versions(const jit::Plan&) override { return {"0.1.0", "g++", "digest"}; }
  Model model(const Workload& workload) override { return cpu_model(is, workload.size()); }
  void begin(const Workload& workload) override {
    if (workload.name() == too_large) throw jit::Error("too much scratch");
    begun.push_back(workload.name());
  }
  std::optional<jit::Trial> check(const jit::KernelConfig& candidate) override {
    ++checked[candidate];
    if (candidate == on_full_disk) throw jit::ToolchainError("the disk is full.");
    const auto found = failing.find(candidate);
    if (found == failing.end()) return {};
    return jit::Trial{.config = candidate, .status = found->second, .detail = "scripted failure"};
  }
  double seconds(const jit::KernelConfig& config) override {
    ++runs[config];
    const double elapsed = time(config);
    clock += elapsed;
    return elapsed;
  }
};

}  // namespace jitstep::tuning::testing
