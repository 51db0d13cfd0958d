// The part of the kernel arguments that programs set themselves: hyperparameters, addresses of state and launch
// configurations. One source for the host and for the templates.
#pragma once

namespace jitstep {

// Integers with the same width in every compiler.
using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint16 = unsigned short;
using uint8 = unsigned char;

inline constexpr int kMaxDims = 8;
inline constexpr int kMaxSlots = 8;
inline constexpr int kCommonHyper = 8;  // numbers of the common options, stored before a rule's own
inline constexpr int kMaxRuleHyper = 32;
inline constexpr int kMaxHyper = kCommonHyper + kMaxRuleHyper;
inline constexpr int kMaxInputs = 2;  // in addition to the gradient

// The stored state of one slot: codes, and metadata per block.
struct SlotBuffers {
  void* codes;
  void* meta;
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
