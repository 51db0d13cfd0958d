// Builds the tables that a step's kernels read: tensors, work items, and the offsets of sums and coefficients.
// Independent of formulas, torch and the device.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "jit/base/args.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// The constant tables of a batch: all but gradients, step numbers and hyperparameters.
struct StepTables {
  /// The work items of one launch.
  using Items = std::vector<Item>;

  std::vector<TensorRecord> tensors;
  std::vector<int> layout;      // flags of each tensor, without kAligned
  std::vector<Items> partials;  // [pass]
  std::vector<Items> finish;    // [pass]
  Items apply;
  /// Entries and partial sums of each reduction layout, over all tensors. They determine the sizes of the buffers.
  std::array<std::int64_t, kReductionLayouts> entries{};
  std::array<std::int64_t, kReductionLayouts> partial_count{};
};

/// Builds the tables of tensors that share a kernel. Empty tensors get no work.
StepTables step_tables(const std::vector<StepTensor>& tensors,
                       const std::vector<ResolvedReduction>& reductions, int passes,
                       const KernelConfig& config);

}  // namespace jitstep::jit
