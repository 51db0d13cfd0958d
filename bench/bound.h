// Upper bounds of speed in a comparison: hand-written loops over the bytes of an AdamW step, without torch and jitstep.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace jitstep::bench {

/// Pointers to one tensor's weights, its gradient, and up to three arrays of state.
struct Streams {
  void* p = nullptr;
  const void* g = nullptr;
  std::array<void*, 3> state = {};
};

/// A loop over the elements [begin, end) of one tensor.
using Loop = void (*)(const Streams&, std::int64_t begin, std::int64_t end);

/// A loop that reads weights, gradient and state, and writes weights and state. Its only arithmetic flips lowest bits,
/// so values change by at most 1 ulp.
///
/// `weights` is float32 or bfloat16. `state` is float32, bfloat16 or uint8, one value per element in each of `arrays`
/// arrays. One array of uint8 stands for two slots of 4 bits. Throws std::invalid_argument for unknown combinations.
Loop bandwidth_baseline(const std::string& weights, const std::string& state, int arrays);

/// A plain float32 AdamW with m and v in `state`. Every step uses the bias correction of step 1.
void plain_adamw(const Streams& at, std::int64_t begin, std::int64_t end);

}  // namespace jitstep::bench
