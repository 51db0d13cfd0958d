// What the host hands to a kernel: plain structures, read by the host library and by every target.
// Knows no rule, no codec and no compiler; the host fills the tables, kernels only read them.
#pragma once

namespace jitstep {

// Integers of the same width for every compiler.
using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint16 = unsigned short;
using uint8 = unsigned char;

inline constexpr int kLeaf = 256;  // consecutive indices whose sum is one tree in `real`
inline constexpr int kMaxDims = 8;
inline constexpr int kMaxSlots = 8;
inline constexpr int kCommonHyper =
    8;  // numbers of the options common to all rules, before a rule's own
inline constexpr int kMaxRuleHyper = 32;
inline constexpr int kMaxHyper = kCommonHyper + kMaxRuleHyper;
inline constexpr int kMaxReductions = 24;  // that one kernel takes
inline constexpr int kMaxMemory = 24;

// A space is one way of walking a tensor: which indices form an entry, in which order.
// Numbers 0 to 8 belong to the domains of contract.cuh (`all` walks like `tensor`), the next two to
// reductions over the entries of another domain, the last one to the sum over all tensors.
inline constexpr int kOverSpace = 9;
inline constexpr int kSpaces = 11;
inline constexpr int kAllSpace = kSpaces;

// One dimension of a tensor, in logical order.
struct Dim {
  int64 size;
  int64 stride;    // of the element number: storage order, compact
  int64 p_stride;  // of the parameter's memory, in elements
  int64 g_stride;  // of the gradient's memory, in elements
};

// How many indices a walk has, and where its sums lie.
struct Space {
  int64 entries;
  int64 members;        // indices of one entry
  int64 leaves;         // leaves of one entry, padded to a multiple of 2^fold
  int64 first_partial;  // where this tensor's partial sums begin
  int64 first_entry;    // where this tensor's coefficients begin
  int fold;             // log2 of the leaves that one partial sum covers
  int reserved;
};

// What is kept for one slot: its codes, and what its codec keeps for each block.
struct SlotBuffers {
  void* codes;
  void* meta;
};

// The part of a tensor that stays from step to step.
struct TensorRecord {
  void* p;
  void* extra;  // what the weight format keeps beside p
  SlotBuffers slots[kMaxSlots];
  void* memory[kMaxMemory][2];  // [t & 1] is written in step t; of domain `all`, [round & 1]
  int64 n;
  int64 offset;  // global number of element 0: not 0 for a shard, a multiple of 8
  int id;
  int dims;
  int extra_is_held;  // not 0: extra is what earlier steps left, whatever the number of the step
  int reserved;
  Dim dim[kMaxDims];
  Space spaces[kSpaces];
};

// Bits of StepRecord::layout.
enum Layout : int {
  kDenseP = 1,   // element i of p lies at p + i
  kDenseG = 2,   // element i of g lies at g + i
  kAligned = 4,  // p, g, extra and codes are aligned to 16 bytes
};

// The part that may change in every step.
struct StepRecord {
  const void* g;
  void* cleared;  // the same, where the step leaves zeros in the gradient; else null
  void*
      staged;  // what elements hand to a host stage and get back: values of `real`, in element order
  int set;
  int layout;
};

// Hyperparameters shared by the tensors of one group at one step number.
struct HyperSet {
  double hyper[kMaxHyper];    // the gradient's options, then the rule's, in manifest order
  double initial[kMaxSlots];  // what each slot holds before step 1
  int64 t;                    // the tensors' own step number, counted from 1
  int64 round;                // the number of the step among those of all tensors together
  uint64 seed;
  // What the device alone knows, as torch.amp leaves it there; null where it is not used.
  const float* grad_scale = nullptr;  // the gradient is divided by it too
  const float* found_inf = nullptr;   // not 0: the step is skipped; the same for all sets
  int64* lag = nullptr;         // steps that count less than t, such as skipped ones; one tensor's
  int64* common_lag = nullptr;  // how many of the steps that `round` counts
  const void* lr = nullptr;     // in place of the option of this name
  int64 lr_bytes = 0;           // 4: a float, 8: a double
};

// A unit of work: a run of leaves (or, when sums are finished, of entries) of one tensor's space.
struct Item {
  int tensor;
  int space;
  int64 first;
};

// One tensor's share of a sum over all tensors, of any kernel on the device.
struct AllRecord {
  const double* partials;
  int64 count;
  int64 n;  // indices that it takes: elements, or entries of another reduction
  int id;
  int reserved;
};

// Where one reduction keeps its partial sums and its results.
struct ReductionRecord {
  double* partials;    // [partial][term]
  void* coefficients;  // [entry]; domain `all`: [set]
  // domain `all` only
  const AllRecord* all;  // one for each tensor that takes part, whatever its kernel
  double* work;          // (ids rounded up to leaves + most partials) * terms
  int all_count;         // of tensors
  int all_ids;           // largest tensor id + 1
};

// What a kernel that converts a slot moves beside it: values of `real`, in element order.
struct Conversion {
  const void* from;  // that are encoded
  void* to;          // that were decoded
};

// The only parameter of every kernel.
struct Args {
  const TensorRecord* tensors;
  const StepRecord* steps;
  const HyperSet* sets;
  const Item* items;
  int64 item_count;
  int set_count;
  int leader =
      -1;  // the tensor that stores memory of domain `all`, where it is one of these; else -1
  Conversion conversion;  // of the only tensor, which has no step; else empty
  ReductionRecord reductions[kMaxReductions];
};

// What a probe of a rule is given (schedules/contract_probe.cuh), and what it marks.
struct ProbeArgs {
  const HyperSet* sets;
  uint8* found;
  int set_count;
  int reserved;
};

// How a kernel is run; never what it computes.
struct Variant {
  int threads = 256;  // of a block, a multiple of 32; 1 on the CPU
  int lanes = 32;     // that share a tile: a power of two, at most 32
  int vector = 4;     // consecutive elements a lane owns; lanes * vector <= 256
  int chunk = 16;     // leaves of one item: a power of two
  // ---- on the CPU; 0: as compiler and machine do it by themselves
  int width = 0;    // bits of the vectors that the compiler shall prefer
  int unroll = 0;   // 1: it shall unroll loops
  int grain = 0;    // items that a worker takes at least
  int workers = 0;  // at most so many
};

}  // namespace jitstep
