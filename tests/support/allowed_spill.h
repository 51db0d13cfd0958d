// Which GPU kernels may use local memory.
#pragma once

#include <string>

namespace jitstep::support {

/// The most bytes that a kernel may spill. AdamW in these formats: three blocks on a multiprocessor spill, mostly for
/// operands that are not ordinary. They are faster than two blocks without spills on an H200. The largest spills are
/// those of split16 weights: 140 bytes on sm_80, 132 on sm_89, 124 on sm_90, 96 on sm_100 and sm_120.
inline int allowed_spill(const std::string& rule, const std::string& codec) {
  const bool quick = codec == "int4" || codec == "int8" || codec == "int8_signed";
  return rule == "adamw" && quick ? 140 : 0;
}

/// The most bytes of stack that a kernel may use, if it may spill `spill` bytes: a quarter of them, in units of 8
/// bytes.
inline int allowed_stack(int spill) { return (spill / 4 + 7) / 8 * 8; }

}  // namespace jitstep::support
