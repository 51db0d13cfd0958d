// Executes a kernel of a program, block by block, following the PTX manual. What the manual leaves undefined is an error
// where the interpreter notices it: unwritten memory, accesses out of bounds, and missing synchronizations. Unwritten
// registers and local memory are NaNs. A shuffle of a whole warp counts as a barrier for its reads, as on GPUs, although
// the manual does not promise it.
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

/// Why an entry cannot be launched with these numbers of blocks and threads per block. Empty if it can.
std::string launch_problem(const Function& entry, unsigned grid, unsigned block);

/// Executes a launch that has no launch_problem(). A Fault names the cause, and the block and thread. Earlier writes remain.
Counts execute(const Launch& launch);

}  // namespace jitstep::ptx
