#include "jit/cache/disk_cache.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "jit/base/file_io.h"
#include "jit/base/log.h"
#include "jit/base/private_files.h"
#include "jit/base/text.h"
#include "jit/cache/explain.h"
#include "jit/compiler/image.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

// Most headers are shorter, with their sources and the compiler's output.
constexpr std::uint64_t kMostHeaders = 32 << 10;

std::optional<Bytes> content(const std::string& file, Trust trust) {
  return TrustedFile(file, trust, kLargestEntry).start(kLargestEntry);
}

// The bytes of a file from its start to the end of its header, or more.
std::optional<Bytes> start_of(const TrustedFile& file) {
  auto start = file.start(kMostHeaders);
  if (start && header_end(*start) > start->size()) start = file.start(header_end(*start));
  return start;
}

// Whether the digest is somewhere in a header. Most headers need not be parsed then.
bool mentions(const Bytes& start, const std::string& digest) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  return text.find(digest) != text.npos;
}

// Why a file with a valid name and owner is not an entry.
std::string problem_of(std::span<const std::byte> bytes) {
  const auto schema = schema_of(bytes);
  const bool other = schema && *schema != std::uint32_t{kCacheSchema};
  return other ? str_cat("it has schema ", *schema, ", and this version reads ", kCacheSchema)
               : "damaged";
}

// The same, and also validates the binary.
std::string content_problem(std::span<const std::byte> bytes, const Key& key) {
  const auto entry = decode_entry(bytes, key);
  if (!entry) return problem_of(bytes);
  const std::string problem = image_problem(entry->binary.image, key.target);
  return problem.empty() ? "" : "its binary is damaged: " + problem;
}

}  // namespace

// An entry that fits a request. Only its header was read.
struct DiskCache::Candidate {
  std::string file;
  Trust trust;
  Key key;
  int rank = 0;

  // Reads the whole entry. Nothing if it is damaged, or if another one has replaced it.
  std::optional<Found> found() const {
    const auto bytes = content(file, trust);
    auto entry = bytes ? decode_entry(*bytes, key) : std::nullopt;
    if (!entry) return {};
    const bool whole = image_problem(entry->binary.image, key.target).empty();
    return Found{key, std::move(*entry), rank, whole};
  }
};

DiskCache::DiskCache(Settings settings)
    : settings_(std::move(settings)),
      folders_{{{settings_.cache_dir, Trust::own, Links::ignore},
                {settings_.cache_readonly, Trust::own_or_root, Links::ignore},
                {settings_.packaged_kernels, Trust::anyone, Links::follow}}} {}

std::optional<CacheEntry> DiskCache::find(const Key& key) {
  open_folders();
  for (const Folder& from : folders_)
    if (auto entry = read(from, key)) return entry;
  return {};
}

std::optional<DiskCache::Found> DiskCache::find_best(const Key& key, const Rank& rank,
                                                     std::span<const Layer> layers) {
  open_folders();
  std::vector<Candidate> candidates;
  for (const Layer layer : layers) scan(folder(layer), key, rank, candidates);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](auto& a, auto& b) { return a.rank > b.rank; });
  // If no undamaged entry fits, returns a damaged one, so that the error can name the damage.
  std::optional<Found> found;
  for (const Candidate& one : candidates) {
    auto next = one.found();
    if (next && (next->whole || !found)) found = std::move(next);
    if (found && found->whole) break;
  }
  if (found && own().usable) mark_used(entry_path(own().path, found->key));
  return found;
}

void DiskCache::publish(const Key& key, const CacheEntry& entry) {
  open_folders();
  if (!own().usable) return warn_unusable();
  const std::string file = entry_path(own().path, key);
  const auto bytes = encode_entry(key, entry);
  if (bytes.size() > std::min(settings_.cache_bytes, kLargestEntry)) {
    note(settings_.log, LogLevel::info,
         str_cat(entry.name, " is too large for the kernel cache: ", bytes.size(), " bytes"));
    return;
  }
  const auto failure = write(file, bytes);
  if (!failure) return trim(settings_.cache_bytes, file);
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = !std::exchange(warned_publish_, true);
  }
  if (first)
    warn(settings_.log, str_cat(*failure,
                                ". This kernel, and later ones that cannot be written, are cached "
                                "only in memory."));
}

// The folder may have been deleted since it was opened, and may exist again by now.
Problem DiskCache::write(const std::string& file, std::span<const std::byte> bytes) const {
  const auto failure = write_atomically(file, bytes);
  if (!failure || errno != ENOENT) return failure;
  if (auto problem = make_own_folder(own().path)) return problem;
  return write_atomically(file, bytes);
}

void DiskCache::discard(const Key& key) {
  open_folders();
  std::error_code ignored;
  if (own().usable) fs::remove(entry_path(own().path, key), ignored);
}

void DiskCache::trim(std::uint64_t bytes, const std::string& keep) {
  open_folders();
  if (!own().usable) return;
  sweep_left_overs(own().path);
  evict(own().path, bytes, keep);
}

void DiskCache::clear() {
  trim(0);
  if (own().usable) remove_identities(own().path);
}

std::vector<ListedEntry> DiskCache::list(bool check) {
  open_folders();
  warn_unusable();
  std::vector<ListedEntry> all;
  for (const Folder& from : folders_) {
    if (!from.usable) continue;
    for (const EntryFile& file : entry_files(from.path, from.links))
      all.push_back(listed(from, file, check));
  }
  return all;
}

std::string DiskCache::explain(const EntryHeader& wanted, const WhyUnusable& why_unusable) {
  std::vector<EntryHeader> headers;
  std::vector<std::string> unusable;
  for (ListedEntry& entry : list(false)) {
    if (entry.header) headers.push_back(std::move(*entry.header));
    std::error_code failure;
    if (!entry.problem.empty() && fs::exists(entry.file.path, failure))  // else it was evicted
      unusable.push_back(entry.file.path + ": " + entry.problem);
  }
  const std::string reason = explain_miss(wanted, headers, why_unusable);
  if (unusable.empty()) return reason;
  return str_cat(reason, ". ", counted(unusable.size(), "file"), " cannot be used, such as ",
                 unusable.front());
}

std::string DiskCache::folders() {
  open_folders();
  std::vector<std::string> all;
  for (const Folder& one : folders_)
    if (one.usable) all.push_back(one.path);
  return all.empty() ? "no folder" : joined(all, " and ");
}

// Returns true in the first call.
bool DiskCache::open() {
  std::lock_guard lock(mutex_);
  if (std::exchange(opened_, true)) return false;
  auto& [own, readonly, packaged] = folders_;
  own.problem = own.path.empty() ? "JITSTEP_CACHE_DIR, XDG_CACHE_HOME and HOME do not name a folder"
                                 : make_own_folder(own.path).value_or("");
  if (!readonly.path.empty())
    readonly.problem = folder_problem(readonly.path, readonly.trust).value_or("");
  own.usable = own.problem.empty();
  readonly.usable = !readonly.path.empty() && readonly.problem.empty();
  std::error_code absent;
  packaged.usable = !packaged.path.empty() && fs::is_directory(packaged.path, absent);
  return true;
}

// Note: warnings are sent after unlocking, because the handler is user code.
void DiskCache::open_folders() {
  if (!open()) return;
  const Folder& readonly = folder(Layer::readonly);
  if (!readonly.problem.empty())
    warn(settings_.log,
         str_cat("cannot use JITSTEP_CACHE_READONLY: ", readonly.problem,
                 ". Its kernels are not used. Set it to a folder of this user or of root."));
  if (!readonly.usable && !folder(Layer::packaged).usable) warn_unusable();
}

// Called late: if the read-only cache has every kernel, the own folder is not needed.
void DiskCache::warn_unusable() {
  {
    std::lock_guard lock(mutex_);
    if (own().problem.empty() || std::exchange(warned_unusable_, true)) return;
  }
  warn(settings_.log,
       str_cat("cannot cache kernels on disk: ", own().problem,
               ". Kernels are cached only in memory. Set JITSTEP_CACHE_DIR to a folder that only ",
               "you can write to."));
}

std::vector<std::string> DiskCache::rejected(const Settings& settings) {
  DiskCache cache(settings);
  cache.open();
  std::vector<std::string> all;
  for (const Folder& one : cache.folders_)
    if (!one.problem.empty()) all.push_back(one.problem);
  return all;
}

std::optional<CacheEntry> DiskCache::read(const Folder& from, const Key& key) const {
  if (!from.usable) return {};
  const bool is_own = &from == &own();
  const std::string file = entry_path(from.path, key);
  const auto bytes = content(file, from.trust);
  if (!bytes) return {};
  auto entry = decode_entry(*bytes, key);
  if (entry && is_own) mark_used(file);
  if (!entry) {
    note(settings_.log, LogLevel::info,
         str_cat("the cache file ", file, " is damaged. It is ", is_own ? "deleted." : "ignored."));
    std::error_code ignored;
    if (is_own) fs::remove(file, ignored);
  }
  return entry;
}

// Files are visited in order of name, so the choice is deterministic.
void DiskCache::scan(const Folder& from, const Key& key, const Rank& rank,
                     std::vector<Candidate>& found) {
  if (!from.usable) return;
  for (const EntryFile& entry : entry_files(from.path, from.links)) {
    const TrustedFile file(entry.path, from.trust, kLargestEntry);
    const auto start = start_of(file);
    if (!start || !mentions(*start, key.token_digest)) continue;
    const auto header = header_of(*start, file.size());
    if (!header || header->key.token_digest != key.token_digest) continue;
    const int entry_rank = header->key.target == key.target ? rank(header->key.compiler) : 0;
    if (entry_rank > 0) found.push_back({entry.path, from.trust, header->key, entry_rank});
  }
}

ListedEntry DiskCache::listed(const Folder& from, const EntryFile& file, bool check) const {
  ListedEntry entry{file, &from != &own()};
  const TrustedFile opened_file(file.path, from.trust, kLargestEntry);
  const auto bytes = check ? opened_file.start(kLargestEntry) : start_of(opened_file);
  if (!bytes) {
    entry.problem = opened_file.problem().empty() ? failure_advice(errno) : opened_file.problem();
    return entry;
  }
  entry.header = header_of(*bytes, opened_file.size());
  if (!entry.header) {
    entry.problem = problem_of(*bytes);
  } else if (entry_path(from.path, entry.header->key) != file.path) {
    entry.problem = "its name belongs to another entry";
  } else if (check) {
    entry.problem = content_problem(*bytes, entry.header->key);
  }
  return entry;
}

}  // namespace jitstep::jit
