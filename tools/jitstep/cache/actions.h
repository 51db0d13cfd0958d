// The larger subcommands of `jitstep cache`, and what they share.
#pragma once

#include <jit/cache/disk_cache.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/settings.h>

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace jitstep::tool::cache {

/// The settings of the environment. A rejected cache folder is always reported.
jit::Settings settings();

/// The key, which is the stem of the file's name.
std::string digest_of(const jit::ListedEntry& entry);

/// An error: no entry's name or key begins with this.
jit::Error no_entry(const std::string& beginning);

/// Whether a word begins the key or the kernel's name.
bool is_asked(const jit::ListedEntry& entry, const std::string& word);

/// The whole entry; nothing if it is not one.
std::optional<jit::CacheEntry> content_of(const jit::ListedEntry& entry);

/// Adds the subcommand `show`: all that an entry says of itself.
void add_show(CLI::App& cache, int& status);
/// `warm`: compiles kernels into the cache before somebody needs them.
void add_warm(CLI::App& cache, int& status);
/// `export`: a folder that can be shipped as JITSTEP_CACHE_READONLY.
void add_export(CLI::App& cache, int& status);

}  // namespace jitstep::tool::cache
