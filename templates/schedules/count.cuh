// Step counting on the device, for CUDA graphs, where no host code is repeated. A tensor's step number is the host's t
// minus its step offset. Each step decrements the offset.
#pragma once
#include "../core/port.cuh"

namespace jitstep {

struct Count {
  static constexpr int kThreads = 32;
  static constexpr int kBlocks = 1;

  // Items are tensors. Inactive ones have a negative index. A skipped step has incremented every offset before.
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
