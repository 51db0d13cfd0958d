// The files of a cache folder: which are entries, which are left over, which go when it is full.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "jit/cache/key.h"

namespace jitstep::jit {

/// A regular file that is named like an entry, whatever it holds.
struct EntryFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point used;  // its stamp
};

/// Where the entry of a key lies in a folder.
std::string entry_path(const std::string& folder, const Key& key);

/// The entry files of a folder in the order of their names; none if it cannot be read. Files of
/// other names are nobody's business here: the folder may be one the user keeps other things in.
std::vector<EntryFile> entry_files(const std::string& folder);

/// Marks an entry as used now: its modification time is the cache's own stamp, which the mount
/// options about access times do not touch. Nothing happens where that is not allowed.
void stamp(const std::string& path);

/// Deletes what killed writers left aside more than an hour ago.
void sweep_left_overs(const std::string& folder);

/// If the entries together exceed `limit` bytes, deletes those unused for longest, but never
/// `keep`, until nine tenths of the limit are left. Other processes may do the same at once.
void evict(const std::string& folder, std::uint64_t limit, const std::string& keep);

}  // namespace jitstep::jit
