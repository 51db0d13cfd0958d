// What a tuner asks of a device. Everything else of it is tested with a device that answers from a list.
#pragma once

#include <optional>

#include "jit/codegen/tuning_record.h"
#include "tuning/model.h"
#include "tuning/workload.h"

namespace jitstep::tuning {

class TuningDevice {
 public:
  virtual ~TuningDevice() = default;

  virtual const jit::Hardware& hardware() const = 0;
  virtual jit::RecordVersions versions(const jit::Plan& plan) = 0;
  /// The order of candidates for a workload.
  virtual Model model(const Workload& workload) = 0;
  /// Makes scratch tensors, and drops those of the workload before. An Error if they take too much.
  virtual void begin(const Workload& workload) = 0;
  /// Why a candidate is not to be timed; nothing if it may be.
  virtual std::optional<jit::Trial> check(const jit::KernelConfig& candidate) = 0;
  /// Seconds of one step by a configuration that was checked, or by the default.
  virtual double seconds(const jit::KernelConfig& config) = 0;
};

}  // namespace jitstep::tuning
