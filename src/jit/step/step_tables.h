// Builds the tables that a step's kernels read: tensors, work items, and the offsets of sums and coefficients.
// Independent of formulas, torch and the device.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "jit/base/args.h"
#include "jit/step/partition.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// Leaves in the largest partial sum of a part. Parts begin at multiples of so many leaves.
inline constexpr int kPartLeaves = static_cast<int>(kPartElements / kLeaf);

/// The constant tables of a batch: all but gradients, step numbers and hyperparameters.
struct StepTables {
  /// The work items of one launch.
  using Items = std::vector<Item>;

  std::vector<TensorRecord> tensors;
  /// The same, for the launches of partial sums: layouts over elements number the leaves of the part, not of the whole
  /// tensor. Empty if no tensor is a part.
  std::vector<TensorRecord> parts;
  std::vector<std::int64_t> whole;  // StepTensor::whole of each tensor
  std::vector<int> layout;          // flags of each tensor, without kAligned
  std::vector<Items> partials;      // [pass]
  std::vector<Items> finalize;      // [pass]
  Items apply;
  /// Entries and partial sums of each reduction layout, over all tensors. They determine the sizes of the buffers.
  std::array<std::int64_t, kReductionLayouts> entries{};
  std::array<std::int64_t, kReductionLayouts> partial_count{};
};

/// The tensor's dimensions in storage order, without those of size 1. Neighbors are merged where parameter and gradient
/// lie in memory as if they were one dimension.
std::vector<Dim> merged_dims(const StepTensor& tensor);

/// Builds the tables of tensors that share a kernel. Empty tensors get no work. Empty parts get what keeps their
/// auxiliary state, and shared state, equal to that of other parts.
StepTables step_tables(const std::vector<StepTensor>& tensors,
                       const std::vector<ResolvedReduction>& reductions, int passes,
                       const KernelConfig& config);

}  // namespace jitstep::jit
