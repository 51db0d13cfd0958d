// The tables a step's kernels read, built on the host: which tensors, which work items, where sums
// and coefficients go. Knows layouts and passes; knows no formula, no torch and no device.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "jitstep/jit/plan.h"
#include "jitstep/jit/step_tensor.h"

namespace jitstep::jit {

/// The static half of a batch: everything but gradients, step numbers and hyperparameters.
struct StepTables {
  /// The work items of one launch.
  using Items = std::vector<Item>;

  std::vector<TensorRecord> tensors;
  std::vector<int> layout;      // of each tensor, without kAligned
  std::vector<Items> partials;  // [pass]
  std::vector<Items> finish;    // [pass]
  Items apply;
  /// Entries and partials of each space over all tensors: what the buffers must hold.
  std::array<std::int64_t, kReductionLayouts> entries{};
  std::array<std::int64_t, kReductionLayouts> partial_count{};
};

/// Builds the tables of tensors that share a kernel. Empty tensors get no work.
StepTables step_tables(const std::vector<StepTensor>& tensors,
                       const std::vector<ResolvedReduction>& reductions, int passes,
                       const KernelConfig& config);

}  // namespace jitstep::jit
