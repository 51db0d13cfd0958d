// The files of a cache folder: entries, eviction, and other files that nobody needs any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "jit/cache/key.h"

namespace jitstep::jit {

/// A regular file with the name of an entry, whatever its content. Or a link to one, with the target's size and time.
struct EntryFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point used;  // modification time, which is the time of last use
};

/// The path of a key's entry in a folder. `digest`: that of the key.
std::string entry_path(const std::string& folder, const std::string& digest);
std::string entry_path(const std::string& folder, const Key& key);

/// Whether symbolic links to files count as files.
enum class Links { ignore, follow };

/// The entry files of a folder, sorted by name. Empty if the folder cannot be read. Ignores files with other names,
/// because the user may store other files there.
std::vector<EntryFile> entry_files(const std::string& folder, Links links = Links::ignore);

/// Deletes temporary files that killed writers left more than an hour ago, and identities of compilers that no process
/// has used for 30 days.
void sweep_left_overs(const std::string& folder);

/// Deletes all identities of compilers.
void remove_identities(const std::string& folder);

/// If the entries exceed `limit` bytes, deletes the least recently used ones, except `keep`, until nine tenths of the
/// limit are left. Other processes may do the same concurrently.
void evict(const std::string& folder, std::uint64_t limit, const std::string& keep);

}  // namespace jitstep::jit
