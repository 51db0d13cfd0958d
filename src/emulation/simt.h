// Emulates a kernel launch on a GPU: blocks of lanes in warps of 32, barriers, shuffles and shared memory. Independent
// of what the kernels compute.
#pragma once

#include <cstdint>

namespace jitstep::emulation {

// The emulated device functions. Note: templates/lang/port.cuh repeats this layout, because kernel source cannot
// include host headers.
struct SimtBackend {
  unsigned (*thread_index)();  // threadIdx.x
  unsigned (*block_size)();    // blockDim.x
  unsigned (*block_index)();   // blockIdx.x
  unsigned (*grid_size)();     // gridDim.x
  void (*block_barrier)();     // __syncthreads
  void (*warp_barrier)();      // __syncwarp, full mask
  // __shfl_xor_sync, full mask, 64 bits of payload. Lanes may pass different masks, each in [0, 32), but all lanes of a
  // warp must be at the same call.
  unsigned long long (*shuffle_xor)(unsigned long long bits, int lane_mask);
  // Shared memory: one address per block and `site`, aligned to 128 bytes, filled with 0xCC at the first use.
  void* (*shared)(unsigned bytes, unsigned site);
};

// The functions for launches on the calling thread. A loaded kernel's variable
// `extern "C" const SimtBackend* jitstep_simt_backend` must point here before the first launch.
const SimtBackend* simt_backend();

enum class BlockOrder { kForward, kReverse, kShuffled };

// Which of the runnable lanes runs next. A lane runs until it waits or exits. kForward (kReverse) always selects the
// lowest (highest) warp and lane, which runs as far ahead of the others as barriers allow. A read that races with
// another lane's write therefore gives a wrong value in one of the two orders. kRandom selects at random, by `seed`.
enum class LaneOrder { kForward, kReverse, kRandom };

struct SimtLaunch {
  unsigned grid = 1;
  unsigned block = 32;  // a multiple of 32, at most 1024
  BlockOrder order = BlockOrder::kForward;
  LaneOrder lanes = LaneOrder::kForward;
  std::uint64_t seed = 0;  // for kShuffled and kRandom
};

// Runs entry(args) on every lane of every block, one block after the other, on the calling thread. Other threads may
// launch at the same time.
//
// Throws a std::runtime_error that names the block and the state of each lane:
// - if lanes wait for others that have exited or wait at another operation,
// - for a lane mask or launch shape that is invalid on a GPU,
// - if lanes of a warp shuffle at different calls, such as in two arms of a branch,
// - if lanes request one site of shared memory with different sizes.
// Rethrows exceptions of the entry. In all these cases the other lanes of the block stop without running destructors,
// and the next launch starts from a clean state.
void simt_launch(void (*entry)(const void*), const void* args, SimtLaunch launch);

}  // namespace jitstep::emulation
