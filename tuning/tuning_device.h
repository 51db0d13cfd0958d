// The tuner's interface to a device. Tests of the tuner use a fake device with listed answers.
#pragma once

#include <optional>

#include "jit/tuning/tuning_record.h"
#include "tuning/model.h"
#include "tuning/workload.h"

namespace jitstep::tuning {

class TuningDevice {
 public:
  virtual ~TuningDevice() = default;

  virtual const jit::Hardware& hardware() const = 0;
  virtual jit::RecordVersions versions(const jit::Plan& plan) = 0;
  /// The cost model, which orders the candidates of a workload.
  virtual Model model(const Workload& workload) = 0;
  /// Allocates scratch tensors, and frees those of the previous workload. Throws an Error if they need too much memory.
  virtual void begin(const Workload& workload) = 0;
  /// A failed trial if the candidate must not be timed. Empty if it may be timed.
  virtual std::optional<jit::Trial> check(const jit::KernelConfig& candidate) = 0;
  /// Seconds of one step with a checked configuration, or with the default.
  virtual double seconds(const jit::KernelConfig& config) = 0;
};

}  // namespace jitstep::tuning
