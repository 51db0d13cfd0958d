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
using Layer = DiskCache::Layer;

// Most headers are shorter, with their sources and the compiler's output.
constexpr std::uint64_t kMostHeaders = 32 << 10;

TrustedFile opened(Layer layer, const std::string& file) {
  constexpr Trust kTrust[] = {Trust::own, Trust::own_or_root, Trust::anyone};
  return TrustedFile(file, kTrust[static_cast<std::size_t>(layer)], kLargestEntry);
}

std::optional<Bytes> content(Layer layer, const std::string& file) {
  return opened(layer, file).start(kLargestEntry);
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
  Layer layer;
  std::string file;
  Key key;
  int rank = 0;

  // Reads the whole entry. Nothing if it is damaged, or if another one has replaced it.
  std::optional<Found> found() const {
    const auto bytes = content(layer, file);
    auto entry = bytes ? decode_entry(*bytes, key) : std::nullopt;
    if (!entry) return {};
    const bool whole = image_problem(entry->binary.image, key.target).empty();
    return Found{key, std::move(*entry), rank, whole};
  }
};

DiskCache::DiskCache(Settings settings) : settings_(std::move(settings)) {}

std::optional<CacheEntry> DiskCache::find(const Key& key) {
  open_folders();
  for (const Layer layer : kLayers)
    if (auto entry = read(layer, key)) return entry;
  return {};
}

std::optional<DiskCache::Found> DiskCache::find_best(const Key& key, const Rank& rank,
                                                     std::span<const Layer> layers) {
  open_folders();
  std::vector<Candidate> candidates;
  for (const Layer layer : layers) scan(layer, key, rank, candidates);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](auto& a, auto& b) { return a.rank > b.rank; });
  // If no undamaged entry fits, returns a damaged one, so that the error can name the damage.
  std::optional<Found> found;
  for (const Candidate& one : candidates) {
    auto next = one.found();
    if (next && (next->whole || !found)) found = std::move(next);
    if (found && found->whole) break;
  }
  if (found && usable(Layer::own)) mark_used(entry_path(folder(Layer::own), found->key));
  return found;
}

void DiskCache::publish(const Key& key, const CacheEntry& entry) {
  open_folders();
  if (!usable(Layer::own)) return warn_unusable();
  const std::string file = entry_path(folder(Layer::own), key);
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
std::optional<std::string> DiskCache::write(const std::string& file,
                                            std::span<const std::byte> bytes) const {
  const auto failure = write_atomically(file, bytes);
  if (!failure || errno != ENOENT) return failure;
  if (auto problem = make_own_folder(folder(Layer::own))) return problem;
  return write_atomically(file, bytes);
}

void DiskCache::discard(const Key& key) {
  open_folders();
  std::error_code ignored;
  if (usable(Layer::own)) fs::remove(entry_path(folder(Layer::own), key), ignored);
}

void DiskCache::trim(std::uint64_t bytes, const std::string& keep) {
  open_folders();
  if (!usable(Layer::own)) return;
  sweep_left_overs(folder(Layer::own));
  evict(folder(Layer::own), bytes, keep);
}

void DiskCache::clear() {
  trim(0);
  if (usable(Layer::own)) remove_identities(folder(Layer::own));
}

std::vector<ListedEntry> DiskCache::list(bool check) {
  open_folders();
  warn_unusable();
  std::vector<ListedEntry> all;
  for (const Layer layer : kLayers) {
    if (!usable(layer)) continue;
    for (const EntryFile& file : files_of(layer)) {
      all.push_back(listed(layer, file, check));
    }
  }
  return all;
}

std::string DiskCache::explain(const EntryHeader& wanted, const Misfit& misfit) {
  std::vector<EntryHeader> headers;
  for (ListedEntry& entry : list(false)) {
    if (entry.header) headers.push_back(std::move(*entry.header));
  }
  return explain_miss(wanted, headers, misfit);
}

std::string DiskCache::folders() {
  open_folders();
  std::vector<std::string> all;
  for (const Layer layer : kLayers)
    if (usable(layer)) all.push_back(folder(layer));
  return all.empty() ? "no folder" : joined(all, " and ");
}

// Returns true in the first call.
bool DiskCache::open() {
  std::lock_guard lock(mutex_);
  if (std::exchange(opened_, true)) return false;
  std::optional<std::string> problem =
      "JITSTEP_CACHE_DIR, XDG_CACHE_HOME and HOME do not name a folder";
  if (!settings_.cache_dir.empty()) problem = make_own_folder(settings_.cache_dir);
  usable_[0] = !problem;
  own_problem_ = problem.value_or("");
  if (!settings_.cache_readonly.empty()) {
    problem = folder_problem(settings_.cache_readonly, Trust::own_or_root);
    usable_[1] = !problem;
    readonly_problem_ = problem.value_or("");
  }
  std::error_code absent;
  usable_[2] =
      !settings_.packaged_kernels.empty() && fs::is_directory(settings_.packaged_kernels, absent);
  return true;
}

// Note: warnings are sent after unlocking, because the handler is user code.
void DiskCache::open_folders() {
  if (!open()) return;
  if (!readonly_problem_.empty())
    warn(settings_.log,
         str_cat("cannot use JITSTEP_CACHE_READONLY: ", readonly_problem_,
                 ". Its kernels are not used. Set it to a folder of this user or of root."));
  if (!usable(Layer::readonly) && !usable(Layer::packaged)) warn_unusable();
}

// Called late: if the read-only layer has every kernel, the own folder is not needed.
void DiskCache::warn_unusable() {
  {
    std::lock_guard lock(mutex_);
    if (own_problem_.empty() || std::exchange(warned_unusable_, true)) return;
  }
  warn(settings_.log,
       str_cat("cannot cache kernels on disk: ", own_problem_,
               ". Kernels are cached only in memory. Set JITSTEP_CACHE_DIR to a folder that only ",
               "you can write to."));
}

std::vector<std::string> DiskCache::rejected() {
  open();
  std::vector<std::string> all;
  for (const std::string* const problem : {&own_problem_, &readonly_problem_})
    if (!problem->empty()) all.push_back(*problem);
  return all;
}

bool DiskCache::usable(Layer layer) const { return usable_[static_cast<std::size_t>(layer)]; }

const std::string& DiskCache::folder(Layer layer) const {
  const std::string* const folders[] = {&settings_.cache_dir, &settings_.cache_readonly,
                                        &settings_.packaged_kernels};
  return *folders[static_cast<std::size_t>(layer)];
}

std::vector<EntryFile> DiskCache::files_of(Layer layer) const {
  return entry_files(folder(layer), layer == Layer::packaged ? Links::follow : Links::ignore);
}

std::optional<CacheEntry> DiskCache::read(Layer layer, const Key& key) const {
  if (!usable(layer)) return {};
  const bool own = layer == Layer::own;
  const std::string file = entry_path(folder(layer), key);
  const auto bytes = content(layer, file);
  if (!bytes) return {};
  auto entry = decode_entry(*bytes, key);
  if (entry && own) mark_used(file);
  if (!entry) {
    note(settings_.log, LogLevel::info,
         str_cat("the cache file ", file, " is damaged. It is ", own ? "deleted." : "ignored."));
    std::error_code ignored;
    if (own) fs::remove(file, ignored);
  }
  return entry;
}

// Files are visited in order of name, so the choice is deterministic.
void DiskCache::scan(Layer layer, const Key& key, const Rank& rank,
                     std::vector<Candidate>& found) const {
  if (!usable(layer)) return;
  for (const EntryFile& entry : files_of(layer)) {
    const TrustedFile file = opened(layer, entry.path);
    const auto start = start_of(file);
    if (!start || !mentions(*start, key.token_digest)) continue;
    const auto header = header_of(*start, file.size());
    if (!header || header->key.token_digest != key.token_digest) continue;
    const int own = header->key.target == key.target ? rank(header->key.compiler) : 0;
    if (own > 0) found.push_back({layer, entry.path, header->key, own});
  }
}

ListedEntry DiskCache::listed(Layer layer, const EntryFile& file, bool check) const {
  ListedEntry entry{file, layer != Layer::own};
  const TrustedFile opened_file = opened(layer, file.path);
  const auto bytes = check ? opened_file.start(kLargestEntry) : start_of(opened_file);
  if (!bytes) {
    entry.problem = "not readable, of another user, or writable by others";
    return entry;
  }
  entry.header = header_of(*bytes, opened_file.size());
  if (!entry.header) {
    entry.problem = problem_of(*bytes);
  } else if (entry_path(folder(layer), entry.header->key) != file.path) {
    entry.problem = "its name belongs to another entry";
  } else if (check) {
    entry.problem = content_problem(*bytes, entry.header->key);
  }
  return entry;
}

}  // namespace jitstep::jit
