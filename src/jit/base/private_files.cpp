#include "jit/base/private_files.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "jit/base/file_io.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryEnd = ".XXXXXX.tmp";

bool trusted_owner(const struct stat& status, Trust trust) {
  return trust == Trust::anyone || status.st_uid == ::geteuid() ||
         (trust != Trust::own && status.st_uid == 0);
}

// True for the user's primary group if it has the user's name and lists no other member. Many systems give each user
// such a group. An administrator may have made it the primary group of other users, too: a search of all users would
// show them, and is too slow here.
bool is_private_group(gid_t group) {
  std::array<char, 4096> text_of_user{}, text_of_group{};
  struct passwd user {};
  struct group of_file {};
  struct passwd* known_user = nullptr;
  struct group* known_group = nullptr;
  ::getpwuid_r(::geteuid(), &user, text_of_user.data(), text_of_user.size(), &known_user);
  ::getgrgid_r(group, &of_file, text_of_group.data(), text_of_group.size(), &known_group);
  if (known_user == nullptr || known_group == nullptr || user.pw_gid != group) return false;
  const std::string name = user.pw_name;
  for (char** member = of_file.gr_mem; *member != nullptr; ++member)
    if (*member != name) return false;
  return of_file.gr_name == name;
}

bool writable_by_others(const struct stat& status, Trust trust) {
  if ((status.st_mode & S_IWOTH) != 0) return true;
  if ((status.st_mode & S_IWGRP) == 0) return false;
  return trust != Trust::source || !is_private_group(status.st_gid);
}

// Why an open file must not be read, or empty. Sets the status of the file.
std::string distrust(const FileHandle& file, Trust trust, std::uint64_t limit,
                     struct stat& status) {
  if (!file && errno == ELOOP)
    return "it is a symbolic link, or links lead back to it. Replace it by the file";
  if (!file || ::fstat(file.get(), &status) != 0) return failure_advice(errno);
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (!trusted_owner(status, trust)) return "it belongs to another user. Use a copy of your own";
  if (trust != Trust::anyone && writable_by_others(status, trust))
    return "other users can write to it. Run chmod go-w on it";
  if (static_cast<std::uint64_t>(status.st_size) > limit)
    return str_cat("it has ", status.st_size, " bytes, and the limit is ", limit);
  return "";
}

// Keeps errno.
std::string reason(const char* doing, const std::string& path) {
  const int error = errno;
  std::string text = str_cat("cannot ", doing, " ", path, ": ", std::strerror(error));
  errno = error;
  return text;
}

// Removes a trailing slash or dot, because the system would follow a link then.
std::string without_end(std::string path) {
  while (path.size() > 1 && (path.ends_with("/") || path.ends_with("/."))) path.pop_back();
  return path;
}

}  // namespace

std::string absolute_folder(const std::string& folder) {
  std::error_code failure;
  const fs::path absolute = fs::absolute(folder, failure);
  return folder.empty() || failure ? folder : without_end(absolute.string());
}

Problem make_folder(const std::string& path) {
  std::error_code failure;
  const fs::path folder = fs::absolute(path, failure);  // its ".." follow links
  fs::path prefix;
  for (const fs::path& part : folder) {
    prefix /= part;
    if (fs::is_directory(prefix, failure)) continue;
    if (::mkdir(prefix.c_str(), S_IRWXU) != 0 && errno != EEXIST)
      return reason("create the folder", path);
  }
  return {};
}

Problem folder_problem(const std::string& path, Trust trust) {
  struct stat status {};
  if (::lstat(without_end(path).c_str(), &status) != 0) return reason("use the folder", path);
  // The owner of a link can redirect it. Links of this user or root are allowed, for example to a larger disk.
  if (S_ISLNK(status.st_mode) && !trusted_owner(status, Trust::own_or_root)) {
    return str_cat(path, " is a link that belongs to another user");
  }
  if (::stat(path.c_str(), &status) != 0) return reason("use the folder", path);
  if (!S_ISDIR(status.st_mode)) return str_cat(path, " is not a folder");
  if (!trusted_owner(status, trust)) return str_cat(path, " belongs to another user");
  if (!writable_by_others(status, trust)) return {};
  const bool is_shared = (status.st_mode & S_ISVTX) != 0;  // as /tmp
  return str_cat("other users can write to ", path,
                 is_shared ? ". Use a folder inside of it" : ". Run chmod go-w on it");
}

Problem make_own_folder(const std::string& path) {
  if (auto problem = make_folder(path)) return problem;
  return folder_problem(path, Trust::own);
}

// Non-blocking, in case the path is a pipe.
TrustedFile::TrustedFile(const std::string& path, Trust trust, std::uint64_t limit)
    : file_(::open(path.c_str(),
                   O_RDONLY | O_CLOEXEC | O_NONBLOCK | (trust == Trust::anyone ? 0 : O_NOFOLLOW))) {
  struct stat status {};
  problem_ = distrust(file_, trust, limit, status);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

std::optional<std::vector<std::byte>> TrustedFile::start(std::uint64_t most) const {
  if (!problem_.empty()) return {};
  return read_start(file_.get(), static_cast<std::size_t>(std::min(most, size_)));
}

std::optional<std::vector<std::byte>> read_trusted(const std::string& path, Trust trust,
                                                   std::uint64_t limit, std::string* why) {
  const TrustedFile file(path, trust, limit);
  std::optional<std::vector<std::byte>> bytes;
  std::string problem = file.problem();
  if (problem.empty() && !(bytes = file.start(limit))) problem = failure_advice(errno);
  if (why != nullptr) *why = problem;
  return bytes;
}

std::string read_code_file(const std::string& path) {
  constexpr std::uint64_t kLargest = std::uint64_t{64} << 20;
  // Non-blocking as above. Follows links, because the user named the file.
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  std::string problem = distrust(file, Trust::source, kLargest, status);
  const auto bytes = problem.empty() ? read_all(file.get()) : std::nullopt;
  if (!bytes && problem.empty()) problem = failure_advice(errno);
  if (!bytes) throw Error(str_cat("cannot load ", path, ": ", problem));
  return text_of(*bytes);
}

Problem write_atomically(const std::string& path, std::span<const std::byte> bytes) {
  const fs::path target = path;
  constexpr std::size_t kMostOfStem = 200;  // bytes, because Linux permits 255 in a name
  const std::string stem = target.stem().string().substr(0, kMostOfStem);
  std::string temporary = (target.parent_path() / ("." + stem)).string();
  temporary += kTemporaryEnd;
  const FileHandle file(::mkostemps(temporary.data(), 4, O_CLOEXEC));
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  if (!file) return reason("write into", folder);
  if (write_all(file.get(), bytes) && sync_file(file.get()) &&
      ::rename(temporary.c_str(), path.c_str()) == 0) {
    sync_folder(folder);
    return {};
  }
  const int error = errno;
  const std::string failure = str_cat("cannot write ", path, ": ", failure_advice(error));
  ::unlink(temporary.c_str());
  errno = error;
  return failure;
}

std::optional<std::string_view> stem_of_temporary(std::string_view name) {
  constexpr std::size_t kEnd = kTemporaryEnd.size(), kType = 4;
  if (name.size() <= 1 + kEnd || !name.starts_with('.')) return {};
  const std::string_view end = name.substr(name.size() - kEnd);
  if (!end.starts_with('.') || !end.ends_with(kTemporaryEnd.substr(kEnd - kType))) return {};
  return name.substr(1, name.size() - 1 - kEnd);
}

}  // namespace jitstep::jit
