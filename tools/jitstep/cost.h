// What a kernel keeps and how often it is launched.
#pragma once

#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <string>
#include <vector>

namespace jitstep::tool {

/// Of one slot, bytes a parameter.
struct SlotBytes {
  std::string name;
  double codes = 0;
  double scales = 0;  // what its codec keeps for each block

  double all() const { return codes + scales; }
};

/// Bytes a parameter, of a matrix of 1024 x 1024.
struct StateBytes {
  std::vector<SlotBytes> slots;
  double memory = 0;  // fields of memory, both buffers
  double extra = 0;   // what the weight format keeps
  double all = 0;
};

/// Of a kernel under the options that it was made for.
StateBytes state_bytes(const jit::Plan& plan, const jit::OptionValues& options);

/// Launches of a step.
int launches_of(const jit::Plan& plan);

}  // namespace jitstep::tool
