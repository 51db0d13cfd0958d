// Selects cached binaries of other compilers, and explains why none fits.
#pragma once

#include <optional>

#include "jit/cache/disk_cache.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

/// The best binary for a machine without a compiler. See Compiler::fitness.
std::optional<DiskCache::Found> find_without_compiler(DiskCache& disk, const Compiler& compiler,
                                                      const Key& key);

/// The highest baseline of the read-only cache that this machine can run, because that cache exists to avoid compiles.
/// Not from the user's own folder: its baselines were compiled for other machines, and native code is preferable.
std::optional<DiskCache::Found> find_readonly_baseline(DiskCache& disk, const Compiler& compiler,
                                                       const Key& key);

/// Throws a MissingCompilerError (CPU) or a ToolchainError for a kernel that is not cached and cannot be compiled. It
/// has the name, the folders, how the most similar entry differs, and why there is no compiler. The log gets the same
/// without the compiler's part.
[[noreturn]] void throw_cache_miss(DiskCache& disk, Compiler& compiler, const EntryHeader& wanted,
                                   LogLevel log);

}  // namespace jitstep::jit
