// An emulation of one kernel launch on a GPU: blocks of lanes in warps of 32, barriers,
// shuffles and shared memory. Knows nothing of what the kernels compute.
#pragma once

#include <cstdint>

namespace jitstep::emulation {

// All that kernel text sees of the machine. Note: templates/core/port.cuh repeats this layout, as
// device text may include no host header.
struct SimtBackend {
  unsigned (*thread_index)(void);  // threadIdx.x
  unsigned (*block_size)(void);    // blockDim.x
  unsigned (*block_index)(void);   // blockIdx.x
  unsigned (*grid_size)(void);     // gridDim.x
  void (*block_barrier)(void);     // __syncthreads
  void (*warp_barrier)(void);      // __syncwarp, full mask
  // __shfl_xor_sync, full mask, 64 bits of payload. Lanes may pass different masks, each in [0,
  // 32), but all of a warp must stand at the same call.
  unsigned long long (*shuffle_xor)(unsigned long long bits, int lane_mask);
  // Shared memory: one address per block and `site`, 128-byte aligned, filled with 0xCC at first
  // use.
  void* (*shared)(unsigned bytes, unsigned site);
};

// The machine the calling thread's launches run on. A loaded kernel's variable
// `extern "C" const SimtBackend* jitstep_simt_backend` must point here before it is launched.
const SimtBackend* simt_machine();

enum class BlockOrder { kForward, kReverse, kShuffled };

// Who runs next, of all lanes that can. A lane runs until it waits or exits, and kForward
// (kReverse) always takes the lowest (highest) warp and lane: it runs as far ahead of the others as
// barriers let it, so what one lane reads before another has surely written it comes out wrong
// under one of the two. kRandom mixes, by seed.
enum class LaneOrder { kForward, kReverse, kRandom };

struct SimtLaunch {
  unsigned grid = 1;
  unsigned block = 32;  // a multiple of 32, at most 1024
  BlockOrder order = BlockOrder::kForward;
  LaneOrder lanes = LaneOrder::kForward;
  std::uint64_t seed = 0;  // of kShuffled and kRandom
};

// Runs entry(args) on every lane of every block, blocks one after the other, all on the calling
// thread; other threads may launch at the same time.
//
// Throws std::runtime_error that names the block and what each lane was doing, when lanes wait for
// others that will never come (they exited, or wait elsewhere), on a lane mask or launch shape no
// GPU has, when lanes of a warp shuffle at different calls (arms of a branch), and when lanes ask for
// one site of shared memory with different sizes. What the entry
// throws comes out as it is. In all these cases the other lanes of the block stop where they are,
// without running destructors, and the next launch starts afresh.
void simt_launch(void (*entry)(const void*), const void* args, SimtLaunch launch);

}  // namespace jitstep::emulation
