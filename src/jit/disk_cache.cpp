#include "jitstep/jit/disk_cache.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "jitstep/jit/private_files.h"
#include "jitstep/jit/text.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".jsk";
constexpr std::chrono::hours kStaleAfter{1};

struct CacheFile {
  fs::path path;
  std::uintmax_t bytes = 0;
  fs::file_time_type used;
};

std::vector<CacheFile> files_in(const std::string& folder, const std::string& suffix) {
  std::vector<CacheFile> files;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (entry->path().extension() != suffix) continue;
    // Another process may delete it just now: then it does not count.
    std::error_code gone;
    const CacheFile file{entry->path(), entry->file_size(gone), entry->last_write_time(gone)};
    if (!gone) files.push_back(file);
  }
  return files;
}

void sweep_stale(const std::string& folder) {
  const auto limit = fs::file_time_type::clock::now() - kStaleAfter;
  std::error_code ignored;
  for (const CacheFile& file : files_in(folder, ".tmp")) {
    if (file.used < limit) fs::remove(file.path, ignored);
  }
}

// The compiler of an undamaged entry if it is of the key's text and target.
std::optional<Key> sibling_of(std::span<const std::byte> bytes, const Key& key) {
  const auto header = entry_header(bytes);
  if (!header) return {};
  try {
    const auto fields = nlohmann::json::parse(*header).at("key");
    Key found{fields.at("text"), key.target, fields.at("compiler")};
    const bool same =
        found.text_digest == key.text_digest && fields.at("target") == to_string(key.target);
    return same ? std::optional(found) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace

DiskCache::DiskCache(Settings settings) : settings_(std::move(settings)) {}

std::optional<CacheEntry> DiskCache::find(const Key& key) {
  open_folders();
  if (auto entry = read(Layer::own, key)) return entry;
  return read(Layer::readonly, key);
}

std::optional<CacheEntry> DiskCache::find_of_any_compiler(const Key& key, const Accepts& accepts) {
  open_folders();
  if (auto entry = scan(Layer::own, key, accepts)) return entry;
  return scan(Layer::readonly, key, accepts);
}

void DiskCache::publish(const Key& key, const CacheEntry& entry) {
  open_folders();
  if (!usable(Layer::own)) return;
  const std::string file = file_of(Layer::own, key);
  const auto bytes = encode_entry(key, entry);
  auto failure = write_atomically(file, bytes);
  // Somebody may have removed the whole folder since it was opened.
  if (failure && !fs::exists(folder(Layer::own)) && !make_folder(folder(Layer::own))) {
    failure = write_atomically(file, bytes);
  }
  if (!failure) return evict(file);
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = !std::exchange(warned_publish_, true);
  }
  if (first) warn(settings_.log, text(*failure, "; new kernels are kept in memory only"));
}

void DiskCache::discard(const Key& key) {
  open_folders();
  std::error_code ignored;
  if (usable(Layer::own)) fs::remove(file_of(Layer::own, key), ignored);
}

// Note: the warnings are given after the lock, as the handler is a user's.
void DiskCache::open_folders() {
  std::vector<std::string> warnings;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(opened_, true)) return;
    std::optional<std::string> problem =
        "JITSTEP_CACHE_DIR, XDG_CACHE_HOME and HOME name no folder";
    if (!settings_.cache_dir.empty()) {
      problem = make_folder(settings_.cache_dir);
      if (!problem) problem = folder_problem(settings_.cache_dir, Trust::own);
    }
    own_usable_ = !problem;
    if (problem) {
      warnings.push_back(
          text("no kernel cache on disk: ", *problem,
               "; kernels are kept in memory only. JITSTEP_CACHE_DIR names another"));
    }
    if (!settings_.cache_readonly.empty()) {
      problem = folder_problem(settings_.cache_readonly, Trust::own_or_root);
      readonly_usable_ = !problem;
      if (problem) warnings.push_back(text("JITSTEP_CACHE_READONLY is not used: ", *problem));
    }
  }
  for (const std::string& warning : warnings) warn(settings_.log, warning);
}

bool DiskCache::usable(Layer layer) const {
  return layer == Layer::own ? own_usable_ : readonly_usable_;
}

const std::string& DiskCache::folder(Layer layer) const {
  return layer == Layer::own ? settings_.cache_dir : settings_.cache_readonly;
}

std::string DiskCache::file_of(Layer layer, const Key& key) const {
  return text(folder(layer), "/", key.digest(), kSuffix);
}

std::optional<CacheEntry> DiskCache::read(Layer layer, const Key& key) const {
  if (!usable(layer)) return {};
  const bool own = layer == Layer::own;
  const std::string file = file_of(layer, key);
  const auto bytes = read_trusted(file, own ? Trust::own : Trust::own_or_root, own);
  if (!bytes) return {};
  auto entry = decode_entry(*bytes, key);
  if (!entry) {
    note(settings_.log, LogLevel::info, text("damaged cache file ", file, " is compiled anew"));
    std::error_code ignored;
    if (own) fs::remove(file, ignored);
  }
  return entry;
}

std::optional<CacheEntry> DiskCache::scan(Layer layer, const Key& key,
                                          const Accepts& accepts) const {
  if (!usable(layer)) return {};
  std::vector<CacheFile> files = files_in(folder(layer), kSuffix);
  // The same choice each time, whatever order the folder gives.
  std::sort(files.begin(), files.end(), [](auto& a, auto& b) { return a.path < b.path; });
  const Trust trust = layer == Layer::own ? Trust::own : Trust::own_or_root;
  for (const CacheFile& file : files) {
    const auto bytes = read_trusted(file.path.string(), trust, false);
    if (!bytes) continue;
    const auto sibling = sibling_of(*bytes, key);
    if (!sibling || !accepts(sibling->compiler)) continue;
    if (auto entry = decode_entry(*bytes, *sibling)) return entry;
  }
  return {};
}

void DiskCache::evict(const std::string& keep) const {
  sweep_stale(folder(Layer::own));
  std::vector<CacheFile> files = files_in(folder(Layer::own), kSuffix);
  std::uintmax_t total = 0;
  for (const CacheFile& file : files) total += file.bytes;
  if (total <= settings_.cache_bytes) return;
  std::sort(files.begin(), files.end(), [](auto& a, auto& b) { return a.used < b.used; });
  const std::uintmax_t goal = settings_.cache_bytes / 10 * 9;
  std::error_code ignored;
  for (const CacheFile& file : files) {
    if (total <= goal) break;
    if (file.path == keep) continue;
    fs::remove(file.path, ignored);
    total -= file.bytes;
  }
}

}  // namespace jitstep::jit
