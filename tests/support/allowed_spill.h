// Which GPU kernels may use local memory.
#pragma once

#include <string>

namespace jitstep::support {

/// The most bytes that a kernel may spill. AdamW in these formats: three blocks on a multiprocessor spill, mostly for
/// operands that are not ordinary. They are faster than two blocks without spills.
inline int allowed_spill(const std::string& rule, const std::string& codec) {
  const bool quick = codec == "int4" || codec == "int8" || codec == "int8_signed";
  return rule == "adamw" && quick ? 128 : 0;
}

}  // namespace jitstep::support
