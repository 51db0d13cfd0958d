// Numbers of things in messages.
#pragma once

#include <jit/base/text.h>

#include <string>

namespace jitstep::tool {

/// "1 kernel", "2 kernels"; "2 entries" with `several`.
template <class Count>
std::string counted(const Count& count, const std::string& one, const std::string& several = "") {
  if (count == 1) return jit::str_cat(count, " ", one);
  return jit::str_cat(count, " ", several.empty() ? one + "s" : several);
}

}  // namespace jitstep::tool
