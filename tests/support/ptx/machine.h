// Executes a kernel of a program, block by block, following the PTX manual. Everything that the manual leaves
// undefined, and every missing synchronization, is an error.
#pragma once

#include "support/ptx/warp.h"

namespace jitstep::ptx {

/// One launch, in one dimension.
struct Launch {
  const Program& program;
  const Function& entry;
  unsigned grid = 1, block = 32;
  const void* params = nullptr;  // as many bytes as the entry's parameters
  Memory& memory;
  int device = 0;
  std::uint32_t number = 1;  // greater than that of earlier ones
  const Order& order;
};

/// Executes a launch. A Fault names the cause, and the block and thread. Earlier writes remain.
Counts execute(const Launch& launch);

}  // namespace jitstep::ptx
