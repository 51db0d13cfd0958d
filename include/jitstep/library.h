// What concerns the whole library: your own rules and codecs, and what was compiled.
#pragma once

#include <cstdint>
#include <string>

#include "jitstep/jit/export.h"

namespace jitstep {

/// Adds a rule or codec from your file, under the file's stem, for every optimizer made
/// from now on. Loaded again after the file, or one it includes, has changed, it is a new version; optimizers
/// made before keep theirs. Thread safe. A jit::Error says what the file lacks. The file is code: it must
/// belong to this user and be writable by nobody else. Returns the name.
JITSTEP_API std::string load_rule(const std::string& path);
JITSTEP_API std::string load_codec(const std::string& path);

/// Kernels of this process so far.
struct KernelStatistics {
  std::int64_t compiled = 0;
  std::int64_t from_disk = 0;    // found in the kernel cache
  std::int64_t from_memory = 0;  // asked for again
  double compile_seconds = 0;
};
/// A snapshot; other threads may be compiling.
JITSTEP_API KernelStatistics kernel_statistics();

}  // namespace jitstep
