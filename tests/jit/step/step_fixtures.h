// Tensors and inputs for steps whose kernels are not run: addresses that nobody follows.
#pragma once

#include <vector>

#include "jitstep/jit/option_values.h"
#include "jitstep/jit/step.h"
#include "support/bits.h"

namespace jitstep::jit::testing {

/// An address; what lies there is never looked at.
inline void* somewhere(int place = 0) {
  static double memory[1 << 14];
  return &memory[place];
}

/// Tensors of one dimension under a rule of two slots, ids from `first` on.
inline std::vector<StepTensor> tensors(int count, std::int64_t size, int first = 0) {
  std::vector<StepTensor> made(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const int place = 3 * (first + i);
    made[i].p = somewhere(place);
    made[i].shape = {{size}, {1}};
    made[i].g_strides = {1};
    made[i].slots = {{somewhere(place + 1), nullptr}, {somewhere(place + 2), nullptr}};
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

/// A shipped rule with its default options and fp32 state, the gradient clipped or not.
inline Plan plan(const std::string& rule, bool clipped = false) {
  OptionValues values(rule);
  if (clipped) values.set("max_grad_norm", 1.0);
  return resolve(values);
}

}  // namespace jitstep::jit::testing
