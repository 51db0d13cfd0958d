// Controls for tests of the PTX driver: a libcuda.so.1 that executes PTX on the host, in place of a GPU's driver. A
// program that links it, or finds it first on its library path, gets it wherever it opens "libcuda.so.1".
//
// Its devices (kDevices) report compute capabilities that no NVRTC knows. So the library requests PTX of the newest
// older architecture. Launches execute at once, in the interpreter of support/ptx. Streams and events do not delay
// them, but unordered accesses to the same memory are an error. As on a GPU, errors are sticky: every later call on
// that device returns the error until recover().
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/ptx/warp.h"

#define JITSTEP_PTX_DRIVER __attribute__((visibility("default")))

namespace jitstep::ptx::driver {

/// Ten times the compute capability of each device. NVRTC 13 compiles compute_90, compute_80 and compute_121 for them.
inline constexpr int kDevices[] = {99, 85, 129};

/// One executed launch.
struct LaunchRecord {
  std::string entry;
  int device = 0;
  unsigned grid = 0, block = 0;
  Counts counts;
};

/// Lets calls of that name return `code`, after `spared` successful ones.
JITSTEP_PTX_DRIVER void fail(const std::string& call, int code, int spared = 0);
/// Lets calls and devices work again.
JITSTEP_PTX_DRIVER void recover();
/// The fault of the last launch or copy that failed. Empty if none did.
JITSTEP_PTX_DRIVER std::string last_fault();
/// Returns the launches since the last call, and clears the list.
JITSTEP_PTX_DRIVER std::vector<LaunchRecord> take_launches();
/// The names of all functions that can fail.
JITSTEP_PTX_DRIVER std::vector<std::string> function_names();
/// The number of calls of a function.
JITSTEP_PTX_DRIVER std::size_t calls(const std::string& name);

/// Numbers of open resources.
struct Open {
  std::size_t allocations = 0, modules = 0, events = 0, streams = 0;
  std::size_t contexts = 0;  // pushed by the calling thread
  bool operator==(const Open&) const = default;
};
JITSTEP_PTX_DRIVER Open open_now();

}  // namespace jitstep::ptx::driver
