// Functions of the whole library: load rules and codecs from files, count compiled kernels.
#pragma once

#include <cstdint>
#include <string>

#include "jitstep/jit/export.h"

namespace jitstep {

/// Loads a rule or codec from a file and returns its name, which is the file's stem. Every optimizer that is
/// constructed later can use it. If the file or one of its includes has changed, loading it again adds a new revision.
/// Existing optimizers continue with the revision that they started with. Thread safe. Throws a jit::Error that names
/// the fault in the file. The file is code: it must belong to this user and must not be writable by others.
JITSTEP_API std::string load_rule(const std::string& path);
JITSTEP_API std::string load_codec(const std::string& path);

/// Counts of kernels in this process.
struct KernelStatistics {
  std::int64_t compiled = 0;
  std::int64_t from_disk = 0;    // found in the kernel cache on disk
  std::int64_t from_memory = 0;  // requested again in this process
  double compile_seconds = 0;
};
/// Returns a snapshot. Other threads may be compiling.
JITSTEP_API KernelStatistics kernel_statistics();

}  // namespace jitstep
