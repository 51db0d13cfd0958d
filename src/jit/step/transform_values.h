// The buffer for the values that a host transform reads and replaces.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "jit/step/launch_batch.h"

namespace jitstep::jit {

/// Allocated for one step.
class TransformValues {
 public:
  /// Allocates values for the active tensors of batches with a host transform.
  void reserve(Backend& backend, const std::vector<LaunchBatch>& batches,
               const std::vector<StepInput>& inputs);
  void release();

  /// One pointer per tensor, batch after batch, aligned to 256 bytes. Null for a tensor without host transform, without
  /// elements, or inactive.
  const std::vector<void*>& all() const { return all_; }

 private:
  std::shared_ptr<void> memory_;
  std::vector<void*> all_;
};

}  // namespace jitstep::jit
