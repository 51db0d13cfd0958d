// Tensors and inputs for steps whose kernels do not run. Nothing dereferences their addresses.
#pragma once

#include <vector>

#include "jitstep/jit/option_values.h"
#include "jitstep/jit/step.h"
#include "support/bits.h"

namespace jitstep::jit::testing {

/// A valid address. Nothing reads it.
inline void* somewhere(int index = 0) {
  static double memory[1 << 14];
  return &memory[index];
}

/// Tensors of one dimension for a rule of two slots. Their ids start at `first`.
inline std::vector<StepTensor> tensors(int count, std::int64_t size, int first = 0) {
  std::vector<StepTensor> made(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const int index = 3 * (first + i);
    made[i].p = somewhere(index);
    made[i].shape = {{size}, {1}};
    made[i].g_strides = {1};
    made[i].slots = {{somewhere(index + 1), nullptr}, {somewhere(index + 2), nullptr}};
    made[i].id = first + i;
  }
  return made;
}

inline std::vector<StepInput> inputs(std::size_t count) {
  return std::vector<StepInput>(count, StepInput{.g = somewhere()});
}

inline HyperParams at_step(std::int64_t t) {
  HyperParams set{};
  set.t = t;
  return set;
}

/// A shipped rule with default options and fp32 state, with or without gradient clipping.
inline Plan plan(const std::string& rule, bool clipped = false) {
  OptionValues values(rule);
  if (clipped) values.set("max_grad_norm", 1.0);
  return resolve(values);
}

}  // namespace jitstep::jit::testing
