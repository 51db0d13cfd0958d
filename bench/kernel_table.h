// The resources of the benchmark's kernels. Needs no GPU.
#pragma once

#include <string>

namespace jitstep::bench {

/// A table of registers and spilled bytes of AdamW's kernels with fp32, bf16, int8 and int4 state and of LAMB's, for a
/// target such as sm_90.
std::string kernel_table(const std::string& target);

}  // namespace jitstep::bench
