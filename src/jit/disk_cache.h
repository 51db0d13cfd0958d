// Binaries on disk, shared by processes. The format and the rules are in CACHE_FORMAT.md.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "jitstep/jit/cache_entry.h"
#include "jitstep/jit/fork_guard.h"
#include "jitstep/jit/key.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// A folder of self-checking files with a read-only folder below it. Thread and process safe
/// without locks on disk. Never throws for what it finds on disk: trouble is a miss, and at most
/// one warning of each sort. Touches nothing before the first call.
class DiskCache {
 public:
  using Accepts = std::function<bool(const std::string& compiler)>;

  explicit DiskCache(Settings settings);

  /// The entry of a key. A damaged file is deleted.
  std::optional<CacheEntry> find(const Key& key);

  /// An entry of the same text and target from any compiler that `accepts`, for machines that have
  /// none. Reads the headers of all files.
  std::optional<CacheEntry> find_of_any_compiler(const Key& key, const Accepts& accepts);

  /// Writes an entry, for other processes and later runs.
  void publish(const Key& key, const CacheEntry& entry);

  /// Deletes an entry that turned out not to load.
  void discard(const Key& key);

 private:
  enum class Layer { own, readonly };

  void open_folders();
  bool usable(Layer layer) const;
  const std::string& folder(Layer layer) const;
  std::string file_of(Layer layer, const Key& key) const;
  std::optional<CacheEntry> read(Layer layer, const Key& key) const;
  std::optional<CacheEntry> scan(Layer layer, const Key& key, const Accepts& accepts) const;
  void evict(const std::string& keep) const;

  Settings settings_;
  ForkSafeMutex mutex_;
  bool opened_ = false;
  bool own_usable_ = false;
  bool readonly_usable_ = false;
  bool warned_publish_ = false;
};

}  // namespace jitstep::jit
