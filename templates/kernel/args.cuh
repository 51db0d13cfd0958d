// Kernel arguments: plain structures that the host library and every target share. The host fills the tables. Kernels
// only read them. Independent of rules, codecs and compilers.
#pragma once

#include "hyper_params.cuh"

namespace jitstep {

inline constexpr int kLeaf = 256;  // consecutive indices that are summed as one tree in `real`
inline constexpr int kMaxReductions = 24;  // of one kernel
inline constexpr int kMaxAuxFields = 24;
inline constexpr int kMaxTransforms = 3;

// A reduction layout says which indices of a tensor form an entry, in which order.
// Numbers 0 to 8 are the domains of contract.cuh (`all` has the layout of `tensor`). The next two are for
// reductions over the entries of another domain. The last one is for sums over all tensors.
inline constexpr int kNestedLayout = 9;
inline constexpr int kReductionLayouts = 11;
inline constexpr int kGlobalLayout = kReductionLayouts;

// One dimension of a tensor, in logical order.
struct Dim {
  int64 size;
  int64 stride;    // of the element number: storage order, without gaps
  int64 p_stride;  // of the parameter's memory, in elements
  int64 g_stride;  // of the gradient's memory, in elements
};

// The sizes of a reduction layout, and the location of its sums.
struct ReductionLayout {
  int64 entries;
  int64 members;        // indices of one entry
  int64 leaves;         // leaves of one entry, padded to whole partial sums
  int64 first_partial;  // index of this tensor's first partial sum
  int64 first_entry;    // index of this tensor's first result
  int log2_leaves;      // log2 of the leaves in one partial sum
  int reserved;
};

// The part of a tensor that does not change between steps.
struct TensorRecord {
  void* p;
  void* residual;  // the weight format's residual
  SlotBuffers slots[kMaxSlots];
  void* aux[kMaxAuxFields][2];  // step t writes [t & 1]; domain `all` uses the global step
  int64 n;
  int64 offset;  // global number of element 0, a multiple of 8; nonzero for a shard
  int id;
  int dims;
  int residual_is_set;    // not 0: `residual` is valid although the tensor is at its step 1
  int whole_dims;         // dimensions of the whole tensor, if this is a part of it
  int64 whole[kMaxDims];  // its sizes
  Dim dim[kMaxDims];
  ReductionLayout reduction_layouts[kReductionLayouts];
};

// Bits of StepRecord::layout.
enum Layout : int {
  kDenseP = 1,   // element i of p is at p + i
  kDenseG = 2,   // element i of g is at g + i
  kAligned = 4,  // p, g, inputs, residual and codes are aligned to 16 bytes
};

// The part of a tensor that may change in every step.
struct StepRecord {
  const void* g;
  void* cleared;  // the gradient, if the step sets it to zero; else null
  // Input and result of each host transform: values of `real`, in element order.
  void* transformed[kMaxTransforms];
  const void* inputs[kMaxInputs];  // values of `real`, in element order; null: not given
  int hyper_index;
  int layout;
};

// The work of one thread or block: consecutive leaves, or in `finalize` entries, of one tensor's reduction layout.
struct Item {
  int tensor;
  int reduction_layout;
  int64 first;
};

// One tensor's part of a sum over all tensors, from any kernel on the device.
struct AllRecord {
  const double* partials;
  int64 count;
  int64 n;  // number of its values: elements, or entries of another reduction
  int id;
  int reserved;
};

// Buffers of one reduction: partial sums and results.
struct ReductionRecord {
  double* partials;    // [partial][term]
  void* coefficients;  // [entry]; domain `all`: [group]
  // domain `all` only
  const AllRecord* all;  // one per tensor that takes part, of any kernel
  double* work;          // (ids rounded up to whole leaves + maximum of partials) * terms
  int all_count;         // number of tensors
  int all_ids;           // largest tensor id + 1
};

// Arguments of a kernel that converts a slot: values of `real`, in element order.
struct Conversion {
  const void* from;  // values to encode
  void* to;          // decoded values
};

// The only parameter of every kernel.
struct Args {
  const TensorRecord* tensors;
  const StepRecord* steps;
  const HyperParams* hyper_params;
  const Item* items;
  int64 item_count;
  int tensor_count;
  int shared_state_writer = -1;  // the tensor whose block writes shared state; -1: none of these
  Conversion conversion;         // for conversions, which have one tensor and no step; else empty
  ReductionRecord reductions[kMaxReductions];
};

// Arguments of the probe of a rule (kernel/check/contract_probe.cuh). It writes `found`: 0 or one of these.
inline constexpr uint8 kFinding = 1, kSuspectedFinding = 2;
struct ProbeArgs {
  const HyperParams* hyper_params;
  uint8* found;
  int hyper_params_count;
  int reserved;
};

}  // namespace jitstep
