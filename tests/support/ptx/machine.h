// Executes a kernel of a program, block by block, as far as PTX says what it does; whatever it leaves open, and
// whatever is not in step, is an error.
#pragma once

#include "support/ptx/warp.h"

namespace jitstep::ptx {

/// One launch, in one dimension.
struct Launch {
  const Program& program;
  const Function& entry;
  unsigned grid = 1, block = 32;
  const void* params = nullptr;  // as many bytes as the entry takes
  Memory& memory;
  int device = 0;
  std::uint32_t number = 1;  // greater than that of earlier ones
  const Order& order;
};

/// Runs it. A Fault says where it went wrong, and in which block and thread; what was written stays written.
Counts execute(const Launch& launch);

}  // namespace jitstep::ptx
