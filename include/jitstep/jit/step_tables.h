// The tables a step's kernels read, built on the host: which tensors, which work items, where sums
// and coefficients go. Knows layouts and passes; knows no formula, no torch and no device.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// One parameter as the kernels see it. Addresses are the target's.
struct JITSTEP_API StepTensor {
  void* p = nullptr;
  void* extra = nullptr;
  std::vector<SlotBuffers> slots;
  std::vector<std::array<void*, 2>> memory;
  Shape shape;                          // of p
  std::vector<std::int64_t> g_strides;  // in elements, in p's logical order
  int id = 0;                           // order in the optimizer: names random bits, orders sums
  std::int64_t offset = 0;              // global number of element 0
};

/// The static half of a launch group: everything but gradients, step numbers and hyperparameters.
struct JITSTEP_API StepTables {
  /// The work items of one launch.
  using Items = std::vector<Item>;

  std::vector<TensorRecord> tensors;
  std::vector<int> layout;      // of each tensor, without kAligned
  std::vector<Items> partials;  // [pass]
  std::vector<Items> finish;    // [pass]
  Items apply;
  /// Entries and partials of each space over all tensors: what the buffers must hold.
  std::array<std::int64_t, kSpaces> entries{};
  std::array<std::int64_t, kSpaces> partial_count{};
};

/// Builds the tables of tensors that share a kernel. Empty tensors get no work.
JITSTEP_API StepTables step_tables(const std::vector<StepTensor>& tensors,
                                   const std::vector<PlannedReduction>& reductions, int passes,
                                   const Variant& variant);

}  // namespace jitstep::jit
