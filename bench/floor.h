// The floor of a comparison: loops over the bytes that a step of AdamW moves, written by hand, without torch and jitstep.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace jitstep::bench {

/// The memory of one tensor: its weights, its gradient, and up to three arrays of state.
struct Streams {
  void* p = nullptr;
  const void* g = nullptr;
  std::array<void*, 3> state = {};
};

/// Works on the elements [begin, end) of one tensor.
using Loop = void (*)(const Streams&, std::int64_t begin, std::int64_t end);

/// A loop that reads weights, gradient and state and writes weights and state, with next to no arithmetic: it flips
/// lowest bits, so that values stay what they are but for the last place.
///
/// `weights` is float32 or bfloat16. `state` is float32, bfloat16 or uint8, one value for each element in each of
/// `arrays` arrays; 4 bits for two slots are one array of uint8. A combination that is not there is an
/// std::invalid_argument.
Loop walk(const std::string& weights, const std::string& state, int arrays);

/// AdamW of float32 as one would write it down: m and v in `state`, their numbers of step 1 in every step.
void plain_adamw(const Streams& at, std::int64_t begin, std::int64_t end);

}  // namespace jitstep::bench
