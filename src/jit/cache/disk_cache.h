// Binaries on disk, shared by processes. CACHE_FORMAT.md specifies format and rules.
#pragma once

#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/base/fork_guard.h"
#include "jit/base/private_files.h"
#include "jit/base/problem.h"
#include "jit/cache/cache_entry.h"
#include "jit/cache/cache_folder.h"
#include "jit/cache/explain.h"
#include "jit/cache/key.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// A cache file, for display in tools.
struct ListedEntry {
  EntryFile file;
  bool readonly = false;  // in a read-only folder
  /// Nothing if the file is not an entry of this schema.
  std::optional<EntryHeader> header = {};
  /// Why the entry is never used, for example damage. Empty if it is used.
  std::string problem = {};
};

/// A folder of files with checksums, and optionally read-only folders that are searched after it. Safe for threads and
/// processes, without locks on disk. Never throws because of files on disk: a problem is a cache miss, with at most one
/// warning of each kind. Does not access the disk before the first call.
class DiskCache {
 public:
  /// The folders in the order of the search: cache_dir, cache_readonly and packaged_kernels of the settings.
  enum class Layer { own, readonly, packaged };
  static constexpr Layer kLayers[] = {Layer::own, Layer::readonly, Layer::packaged};

  /// The rank of binaries by their compiler's identity. 0: they must not be used.
  using Rank = std::function<int(const std::string& compiler)>;

  /// An entry and its key.
  struct Found {
    Key key;
    CacheEntry entry;
    int rank = 0;
    bool whole = false;  // its binary is not damaged
  };

  explicit DiskCache(Settings settings);

  /// The entry of a key. Deletes a damaged file.
  std::optional<CacheEntry> find(const Key& key);

  /// The entry with the same source and target whose compiler has the highest rank. Ties go to the first one, in order
  /// of layers and file names. Damaged binaries rank below all others. Reads the headers of all files, and the whole
  /// files of the highest rank until one is not damaged.
  std::optional<Found> find_best(const Key& key, const Rank& rank,
                                 std::span<const Layer> layers = kLayers);

  /// Writes an entry for other processes and later runs.
  void publish(const Key& key, const CacheEntry& entry);

  /// Deletes an entry that does not load.
  void discard(const Key& key);

  /// Deletes temporary files of killed writers, and identities of compilers that were not used for 30 days. If the
  /// user's own entries exceed `bytes`, deletes the least recently used ones, except `keep`.
  void trim(std::uint64_t bytes, const std::string& keep = {});

  /// Deletes the user's own entries and all identities of compilers. Keeps tuning records.
  void clear();

  /// All entries, the user's own first. `check` also finds damage. Without it, reads only headers. Changes no entry.
  std::vector<ListedEntry> list(bool check);

  /// Why find() has nothing for `wanted`: how the most similar entry differs, as a part of a sentence. Another sentence
  /// follows if there are files that cannot be used. Reads all headers.
  std::string explain(const EntryHeader& wanted, const WhyUnusable& why_unusable = {});

  /// The folders that are searched, for messages. "no folder" if there is none.
  std::string folders();

  /// Why folders of the settings are not used, as texts for messages. Makes the user's own folder. Warns of nothing.
  static std::vector<std::string> rejected(const Settings& settings);

 private:
  // The folder of a layer.
  struct Folder {
    std::string path;
    Trust trust;               // of its files
    Links links;               // of its files
    bool usable = false;       // once it is opened
    std::string problem = "";  // why it is not usable, for messages
  };
  struct Candidate;

  bool open();
  void open_folders();
  Folder& folder(Layer layer) { return folders_[static_cast<std::size_t>(layer)]; }
  const Folder& own() const { return folders_.front(); }
  std::optional<CacheEntry> read(const Folder& from, const Key& key) const;
  static void scan(const Folder& from, const Key& key, const Rank& rank,
                   std::vector<Candidate>& found);
  void warn_unusable();
  Problem write(const std::string& file, std::span<const std::byte> bytes) const;
  ListedEntry listed(const Folder& from, const EntryFile& file, bool check) const;

  Settings settings_;
  ForkSafeMutex mutex_;
  std::array<Folder, std::size(kLayers)> folders_;
  bool opened_ = false;
  bool warned_publish_ = false;
  bool warned_unusable_ = false;
};

}  // namespace jitstep::jit
