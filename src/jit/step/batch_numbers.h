// The numbers of tensors in a step: batch after batch, as StepInput has them.
#pragma once

#include <cstddef>
#include <vector>

#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// The number of each batch's first tensor and, last, the number of all tensors.
inline std::vector<std::size_t> first_numbers(const std::vector<Batch>& batches) {
  std::vector<std::size_t> first = {0};
  for (const Batch& batch : batches) first.push_back(first.back() + batch.tensors.size());
  return first;
}

}  // namespace jitstep::jit
