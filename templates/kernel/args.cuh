// Kernel arguments: plain structures that the host library and every target share. The host fills the tables. Kernels
// only read them. Independent of rules, codecs and compilers.
#pragma once

namespace jitstep {

// Integers with the same width in every compiler.
using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint16 = unsigned short;
using uint8 = unsigned char;

inline constexpr int kLeaf = 256;  // consecutive indices that are summed as one tree in `real`
inline constexpr int kMaxDims = 8;
inline constexpr int kMaxSlots = 8;
inline constexpr int kCommonHyper = 8;  // numbers of the common options, stored before a rule's own
inline constexpr int kMaxRuleHyper = 32;
inline constexpr int kMaxHyper = kCommonHyper + kMaxRuleHyper;
inline constexpr int kMaxReductions = 24;  // of one kernel
inline constexpr int kMaxAuxFields = 24;

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

// The stored state of one slot: codes, and metadata per block.
struct SlotBuffers {
  void* codes;
  void* meta;
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
  int residual_is_set;  // not 0: `residual` is valid although the tensor is at its step 1
  int reserved;
  Dim dim[kMaxDims];
  ReductionLayout reduction_layouts[kReductionLayouts];
};

// Bits of StepRecord::layout.
enum Layout : int {
  kDenseP = 1,   // element i of p is at p + i
  kDenseG = 2,   // element i of g is at g + i
  kAligned = 4,  // p, g, residual and codes are aligned to 16 bytes
};

// The part of a tensor that may change in every step.
struct StepRecord {
  const void* g;
  void* cleared;      // the gradient, if the step sets it to zero; else null
  void* transformed;  // input and result of a host transform: values of `real`, in element order
  int hyper_index;
  int layout;
};

// Hyperparameters of one group at one step number.
struct HyperParams {
  double hyper[kMaxHyper];    // the gradient's options, then the rule's, in order of declaration
  double initial[kMaxSlots];  // value of each slot before step 1
  int64 t;                    // step number of the tensors, from 1
  int64 global_step;          // step number of the optimizer
  uint64 seed;
  // Values that only the device knows, such as those of torch.amp. Null if not used.
  const float* grad_scale = nullptr;    // also divides the gradient
  const float* found_inf = nullptr;     // not 0: skip the step; the same for all groups
  int64* step_offset = nullptr;         // of one tensor: its step number is t - *step_offset
  int64* shared_step_offset = nullptr;  // the same for the optimizer's step number
  const void* lr = nullptr;             // replaces the option of this name
  int64 lr_bytes = 0;                   // 4: a float, 8: a double
};

// A unit of work: consecutive leaves, or in `finalize` entries, of one tensor's reduction layout.
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
  int hyper_params_count;
  int shared_state_writer =
      -1;  // the tensor whose block writes shared state, if it is one of these; else -1
  Conversion conversion;  // for conversions, which have one tensor and no step; else empty
  ReductionRecord reductions[kMaxReductions];
};

// Arguments of the probe of a rule (kernel/contract_probe.cuh). It writes `found`.
struct ProbeArgs {
  const HyperParams* hyper_params;
  uint8* found;
  int hyper_params_count;
  int reserved;
};

// Launch configuration. It never changes results.
struct KernelConfig {
  int threads = 256;         // per block, a multiple of 32; 1 on the CPU
  int tile_lanes = 32;       // lanes per tile: a power of two, at most 32
  int vector_elems = 4;      // consecutive elements of a lane; at most 256 / tile_lanes
  int leaves_per_item = 16;  // leaves per work item: a power of two
  // ---- CPU only. 0: the compiler or the back end decides
  int simd_bits = 0;    // vector width in bits that the compiler prefers
  int unroll = 0;       // 1: the compiler unrolls loops
  int min_items = 0;    // minimum of items per thread
  int max_threads = 0;  // maximum of threads
};

}  // namespace jitstep
