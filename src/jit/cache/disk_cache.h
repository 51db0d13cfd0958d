// Binaries on disk, shared by processes. The format and the rules are in CACHE_FORMAT.md.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/base/fork_guard.h"
#include "jit/cache/cache_entry.h"
#include "jit/cache/cache_folder.h"
#include "jit/cache/explain.h"
#include "jit/cache/key.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// A file of the cache as tools show it.
struct ListedEntry {
  EntryFile file;
  bool readonly = false;  // lies in the layer below
  /// Nothing if the file is not readable as an entry of this schema.
  std::optional<EntryHeader> header = {};
  /// Why it is never served, such as damage; empty if it is.
  std::string problem = {};
};

/// A folder of self-checking files with a read-only folder below it. Thread and process safe
/// without locks on disk. Never throws for what it finds on disk: trouble is a miss, and at most
/// one warning of each sort. Touches nothing before the first call.
class DiskCache {
 public:
  enum class Layer { own, readonly };

  /// How good the binaries of a compiler with some identity are; 0: they must not be used.
  using Rank = std::function<int(const std::string& compiler)>;

  /// An entry and the key that it has.
  struct Found {
    Key key;
    CacheEntry entry;
    int rank = 0;
    bool whole = false;  // its binary is not damaged
  };

  explicit DiskCache(Settings settings);

  /// The entry of a key. A damaged file is deleted.
  std::optional<CacheEntry> find(const Key& key);

  /// Of the entries of the same text and target the one whose compiler ranks highest; among equals the first, in the
  /// order of the layers and of names. A damaged binary comes after all whole ones. Reads all files, once.
  std::optional<Found> find_best(const Key& key, const Rank& rank,
                                 const std::vector<Layer>& layers = {Layer::own, Layer::readonly});

  /// Writes an entry, for other processes and later runs.
  void publish(const Key& key, const CacheEntry& entry);

  /// Deletes an entry that turned out not to load.
  void discard(const Key& key);

  /// Deletes what killed writers left, and the user's own entries that were unused for longest if
  /// all together exceed `bytes`; never the file `keep`.
  void trim(std::uint64_t bytes, const std::string& keep = {});

  /// All entries, the user's own first. `check` tells damage too; without it only headers are
  /// looked at. Changes no entry.
  std::vector<ListedEntry> list(bool check);

  /// Half a sentence that says why find() has nothing for `wanted`: how the nearest entry differs.
  /// Reads all files.
  std::string explain(const EntryHeader& wanted, const Misfit& misfit = {});

  /// The folders that are looked through, for messages; "no folder" if there is none.
  std::string folders();

 private:
  void open_folders();
  bool usable(Layer layer) const;
  const std::string& folder(Layer layer) const;
  std::optional<std::vector<std::byte>> content(Layer layer, const std::string& file) const;
  std::optional<CacheEntry> read(Layer layer, const Key& key) const;
  void scan(Layer layer, const Key& key, const Rank& rank, std::optional<Found>& found) const;
  void warn_unusable();
  std::optional<std::string> write(const std::string& file, std::span<const std::byte> bytes) const;
  ListedEntry listed(Layer layer, const EntryFile& file, bool check) const;

  Settings settings_;
  ForkSafeMutex mutex_;
  bool opened_ = false;
  bool own_usable_ = false;
  bool readonly_usable_ = false;
  bool warned_publish_ = false;
  std::string own_problem_;  // why it is not usable, until somebody is told
};

}  // namespace jitstep::jit
