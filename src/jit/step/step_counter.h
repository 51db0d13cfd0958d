// The launch by which a device counts a step itself.
#pragma once

#include <memory>

#include "jitstep/jit/backend.h"

namespace jitstep::jit {

class StepCounter {
 public:
  /// Compiles or finds its kernel.
  explicit StepCounter(Backend& backend);

  bool wait_for_last_step() { return launches_->wait_for_last_step(); }
  void record_step() { launches_->record_step(); }
  void follow_capture() { launches_->follow_capture(); }

  /// After everything else of a step: takes one from the lag of every tensor whose record names a set, and, if `common`,
  /// from that of all.
  void launch(const StepRecord* steps, std::size_t tensors, const HyperParams* hyper_params,
              bool shared_state);

 private:
  std::shared_ptr<const Kernel> kernel_;
  std::unique_ptr<Launches> launches_;
};

}  // namespace jitstep::jit
