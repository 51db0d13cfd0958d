// The launch that counts a step on the device.
#pragma once

#include <memory>

#include "jit/base/args.h"
#include "jitstep/jit/backend.h"

namespace jitstep::jit {

class StepCounter {
 public:
  /// Compiles or loads its kernel.
  explicit StepCounter(Backend& backend);

  bool wait_for_last_step() { return launches_->wait_for_last_step(); }
  void record_step() { launches_->record_step(); }
  void follow_capture() { launches_->follow_capture(); }

  /// Must be the last launch of a step. Decrements the step offset of each tensor with HyperParams and, if
  /// `shared_state`, the step offset of the shared state.
  void launch(const StepRecord* steps, std::size_t tensors, const HyperParams* hyper_params,
              bool shared_state);

 private:
  std::shared_ptr<const Kernel> kernel_;
  std::unique_ptr<Launches> launches_;
};

}  // namespace jitstep::jit
