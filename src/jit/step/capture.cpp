#include "jit/step/capture.h"

#include <algorithm>

#include "jitstep/jit/error.h"

namespace jitstep::jit {

void check_same_capture(const std::vector<Backend*>& backends) {
  if (backends.size() < 2) return;
  const auto capturing = std::count_if(backends.begin(), backends.end(),
                                       [](Backend* backend) { return backend->is_capturing(); });
  if (capturing == 0 || capturing == static_cast<std::ptrdiff_t>(backends.size())) return;
  throw Error(
      "a CUDA graph captures the steps of some devices only, so that a replay would not step the "
      "parameters of the others. Use one optimizer per device.");
}

}  // namespace jitstep::jit
