// The larger subcommands of `jitstep cache`, and helpers that they share.
#pragma once

#include <jit/cache/disk_cache.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/settings.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace jitstep::tool::cache {

/// The settings of the environment, with a log level of at least `warn`, so that a rejected cache folder is reported.
jit::Settings settings();

/// True if a cache folder of the environment cannot be used.
bool rejects_a_folder();

/// The key of an entry. It is the stem of the file's name.
std::string digest_of(const jit::ListedEntry& entry);

/// The error if no entry matches.
jit::Error no_entry(const std::string& prefix);

/// Whether the entry's key or its kernel's name starts with `prefix`.
bool matches(const jit::ListedEntry& entry, const std::string& prefix);

/// The decoded entry. Empty if the file is damaged or cannot be read.
std::optional<jit::CacheEntry> content_of(const jit::ListedEntry& entry);

/// Prints a line of `jitstep cache list`, or makes its JSON.
void print_line(const jit::ListedEntry& entry);
nlohmann::json entry_json(const jit::ListedEntry& entry);

/// Adds the subcommand `explain`, which compares entries with the current templates and compiler.
void add_explain(CLI::App& cache, int& status);
/// Adds `show`, which prints the metadata of an entry.
void add_show(CLI::App& cache, int& status);
/// Adds `warm`, which compiles kernels into the cache before a program needs them.
void add_warm(CLI::App& cache, int& status);
/// Adds `export`, which copies entries to a folder that can be shipped as JITSTEP_CACHE_READONLY.
void add_export(CLI::App& cache, int& status);

}  // namespace jitstep::tool::cache
