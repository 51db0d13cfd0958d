// What a test asks of the CUDA driver that it has in place of a GPU's: libcuda.so.1, which executes PTX on the
// host. A program that links it, or finds it first on its library path, gets it wherever it opens "libcuda.so.1".
//
// Its devices answer with compute capabilities that no NVRTC knows, so that the library asks NVRTC for PTX of
// the newest architecture below: kDevices. Whatever is launched is executed at once, by the machine of
// support/ptx; streams and events do not delay it, but what they leave unordered is an error when it touches the
// same memory. An error stays, as on a GPU: every later call on that device answers it until recover().
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/ptx/warp.h"

#define JITSTEP_PTX_DRIVER __attribute__((visibility("default")))

namespace jitstep::ptx::driver {

/// Ten times the compute capability of each device; NVRTC 13 compiles compute_90, compute_80 and compute_121 for
/// them.
inline constexpr int kDevices[] = {99, 85, 129};

/// A launch that was made.
struct LaunchRecord {
  std::string entry;
  int device = 0;
  unsigned grid = 0, block = 0;
  Counts counts;
};

/// From now on calls of that name answer `code`, once `spared` have gone well.
JITSTEP_PTX_DRIVER void fail(const std::string& call, int code, int spared = 0);
/// Calls and devices work again.
JITSTEP_PTX_DRIVER void recover();
/// What went wrong in the last launch or copy that did; empty: nothing did.
JITSTEP_PTX_DRIVER std::string last_fault();
/// The launches since this was asked last.
JITSTEP_PTX_DRIVER std::vector<LaunchRecord> take_launches();
/// The names of all functions that can fail.
JITSTEP_PTX_DRIVER std::vector<std::string> function_names();
/// How often a function was called.
JITSTEP_PTX_DRIVER std::size_t calls(const std::string& name);

/// What is open.
struct Open {
  std::size_t allocations = 0, modules = 0, events = 0, streams = 0;
  std::size_t contexts = 0;  // pushed by the calling thread
  bool operator==(const Open&) const = default;
};
JITSTEP_PTX_DRIVER Open open_now();

}  // namespace jitstep::ptx::driver
