// Counts with the right plural, for messages.
#pragma once

#include <jit/base/text.h>

#include <string>

namespace jitstep::tool {

/// "1 kernel" or "2 kernels". `several` is an irregular plural, as in "2 entries".
template <class Count>
std::string counted(const Count& count, const std::string& one, const std::string& several = "") {
  if (count == 1) return jit::str_cat(count, " ", one);
  return jit::str_cat(count, " ", several.empty() ? one + "s" : several);
}

}  // namespace jitstep::tool
