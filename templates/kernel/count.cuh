// Counts steps on the device, for CUDA graphs, whose replays run no host code. A tensor's step number is the host's t
// minus its step offset. Each step decrements the offset.
#pragma once
#include "../lang/port.cuh"
#include "args.cuh"

namespace jitstep {

struct Count {
  static constexpr int kThreads = 32;
  static constexpr int kBlocks = 1;

  // Items are tensors. Inactive ones have a negative index. In a skipped step, an earlier launch has incremented the
  // offsets.
  KHD static void count(const Args& args, Range range) {
    for (int64 i = range.begin; i < range.end; i += range.stride) {
      if (thread_index() != 0) continue;
      const int index = args.steps[i].hyper_index;
      if (index >= 0) --*args.hyper_params[index].step_offset;
      if (i == 0 && args.shared_state_writer >= 0) --*args.hyper_params->shared_step_offset;
    }
  }
};

}  // namespace jitstep
