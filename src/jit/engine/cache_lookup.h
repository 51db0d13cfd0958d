// Binaries of other compilers in the cache: which may be used, and why none may.
#pragma once

#include <optional>

#include "jit/cache/disk_cache.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/log.h"

namespace jitstep::jit {

/// The best binary for a machine without a compiler: see Compiler::fitness.
std::optional<DiskCache::Found> find_without_compiler(DiskCache& disk, const Compiler& compiler,
                                                      const Key& key);

/// The highest baseline of the read-only layer that this machine runs. Somebody put it there so that nobody has to
/// compile; one in the user's own folder was made for others, and native code is as good as compiled.
std::optional<DiskCache::Found> find_shipped_baseline(DiskCache& disk, const Compiler& compiler,
                                                      const Key& key);

/// Throws the Error of a kernel that is in no cache and cannot be compiled: its name, the folders, how the nearest
/// entry differs, and what the compiler says of its absence. The log gets the first of these.
[[noreturn]] void refuse_miss(DiskCache& disk, Compiler& compiler, const EntryHeader& wanted,
                              LogLevel log);

}  // namespace jitstep::jit
