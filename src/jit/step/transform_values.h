// The memory through which the elements of a step hand their values to a host transform, and get them back.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "jit/step/launch_batch.h"

namespace jitstep::jit {

/// Lives as long as one step.
class TransformValues {
 public:
  /// Room for the tensors of the batches whose rules have a stage, but for those that rest.
  void reserve(Backend& backend, const std::vector<LaunchBatch>& batches,
               const std::vector<StepInput>& inputs);
  void release();

  /// One for each tensor, batch after batch: its values, aligned to 256 bytes; null without stage or
  /// elements.
  const std::vector<void*>& all() const { return all_; }

 private:
  std::shared_ptr<void> memory_;
  std::vector<void*> all_;
};

}  // namespace jitstep::jit
