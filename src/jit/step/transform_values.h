// The buffer for the values that host transforms read and replace.
#pragma once

#include <array>
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

  /// One pointer per host transform of a tensor, aligned to 256 bytes. Null for a tensor without elements, or inactive,
  /// or without this transform. Tensors are numbered batch after batch.
  using Of = std::array<void*, kMaxTransforms>;
  const Of& of(std::size_t tensor) const { return all_[tensor]; }

 private:
  std::shared_ptr<void> memory_;
  std::vector<Of> all_;
};

}  // namespace jitstep::jit
