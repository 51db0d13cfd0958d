#include "jit/cache/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "jit/base/private_files.h"
#include "jit/base/text.h"
#include "jit/compiler/remembered_identity.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::system_clock;

constexpr std::string_view kSuffix = ".jsk";
constexpr std::string_view kTuningStem = "tuning";  // of tuning.jsonl, see tuning/tuning_files.cpp
constexpr std::size_t kDigits = 64;
constexpr std::chrono::hours kKeepTemporary{1}, kKeepIdentity{30 * 24};
// Clocks of machines that share a folder may differ by this much. A later time stamp comes from a wrong clock.
constexpr std::chrono::hours kClockSkew{24};

bool is_digest(std::string_view name) {
  return name.size() == kDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_digest_with(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) && is_digest(name.substr(0, name.size() - suffix.size()));
}

bool is_entry_name(std::string_view name) { return is_digest_with(name, kSuffix); }

bool is_identity_name(std::string_view name) { return is_digest_with(name, kIdentitySuffix); }

// How long a file is kept after its last use. Nothing for entries and for files that are not jitstep's.
std::optional<std::chrono::hours> kept_for(std::string_view name) {
  if (is_identity_name(name)) return kKeepIdentity;
  const auto stem = stem_of_temporary(name);
  if (stem && (is_digest(*stem) || *stem == kTuningStem)) return kKeepTemporary;
  return {};
}

Clock::time_point time_of(const timespec& time) {
  const auto since = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(since));
}

// Nothing if another process has deleted the file.
std::optional<EntryFile> regular_file(const std::string& path, Links links = Links::ignore) {
  struct stat status {};
  const int flags = links == Links::follow ? 0 : AT_SYMLINK_NOFOLLOW;
  if (::fstatat(AT_FDCWD, path.c_str(), &status, flags) != 0 || !S_ISREG(status.st_mode)) return {};
  return EntryFile{path, static_cast<std::uint64_t>(status.st_size), time_of(status.st_mtim)};
}

template <class Wanted>
std::vector<EntryFile> files_in(const std::string& folder, const Wanted& wanted,
                                Links links = Links::ignore) {
  std::vector<EntryFile> files;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (!wanted(entry->path().filename().string())) continue;
    if (auto file = regular_file(entry->path().string(), links)) files.push_back(std::move(*file));
  }
  std::sort(files.begin(), files.end(), [](auto& a, auto& b) { return a.path < b.path; });
  return files;
}

// Time stamps in the future are meaningless. Such files count as least recently used. Otherwise they would stay forever
// after a wrong clock was corrected.
bool less_used(const EntryFile& a, const EntryFile& b, Clock::time_point now) {
  const auto age_mark = [&](const EntryFile& file) {
    return file.used > now + kClockSkew ? Clock::time_point::min() : file.used;
  };
  return age_mark(a) < age_mark(b);
}

// Does not delete a file that another process has used since it was listed.
bool remove_unchanged(const EntryFile& file) {
  const auto now = regular_file(file.path);
  return !now || (now->used == file.used && ::unlink(file.path.c_str()) == 0);
}

}  // namespace

std::string entry_path(const std::string& folder, const std::string& digest) {
  return str_cat(folder, "/", digest, kSuffix);
}

std::string entry_path(const std::string& folder, const Key& key) {
  return entry_path(folder, key.digest());
}

std::vector<EntryFile> entry_files(const std::string& folder, Links links) {
  return files_in(folder, is_entry_name, links);
}

void sweep_left_overs(const std::string& folder) {
  const auto now = Clock::now();
  const auto is_swept = [](const std::string& name) { return kept_for(name).has_value(); };
  for (const EntryFile& file : files_in(folder, is_swept)) {
    const auto kept = *kept_for(fs::path(file.path).filename().string());
    const bool fresh = file.used > now - kept && file.used < now + kClockSkew;
    if (!fresh) remove_unchanged(file);
  }
}

void remove_identities(const std::string& folder) {
  for (const EntryFile& file : files_in(folder, is_identity_name)) ::unlink(file.path.c_str());
}

void evict(const std::string& folder, std::uint64_t limit, const std::string& keep) {
  std::vector<EntryFile> files = entry_files(folder);
  std::uint64_t total = 0;
  for (const EntryFile& file : files) total += file.bytes;
  if (total <= limit) return;
  const auto now = Clock::now();
  std::stable_sort(files.begin(), files.end(),
                   [&](auto& a, auto& b) { return less_used(a, b, now); });
  const std::uint64_t goal = limit / 10 * 9;
  for (const EntryFile& file : files) {
    if (total <= goal) break;
    if (file.path != keep && remove_unchanged(file)) total -= file.bytes;
  }
}

}  // namespace jitstep::jit
