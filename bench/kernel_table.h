// What the kernels of the benchmark's optimizers take; needs no GPU.
#pragma once

#include <string>

namespace jitstep::bench {

/// Registers and spilled bytes of AdamW's kernels in every shipped state format and of LAMB's, compiled for a target
/// such as sm_90, as a table.
std::string kernel_table(const std::string& target);

}  // namespace jitstep::bench
