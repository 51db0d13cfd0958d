// Steps that the device counts by itself, as in a CUDA graph, where nothing of the host is repeated: each tensor's
// step number is its set's `t` less its `lag`, and a step takes one from that.
#pragma once
#include "../core/port.cuh"

namespace jitstep {

struct Count {
  static constexpr int kThreads = 32;
  static constexpr int kBlocks = 1;

  // Items are tensors; those that rest have no set. A step that is skipped has put one on every lag before.
  KHD static void count(const Args& args, Range range) {
    for (int64 i = range.begin; i < range.end; i += range.stride) {
      if (thread_index() != 0) continue;
      const int set = args.steps[i].set;
      if (set >= 0) --*args.sets[set].lag;
      if (i == 0 && args.leader >= 0) --*args.sets->common_lag;
    }
  }
};

}  // namespace jitstep
