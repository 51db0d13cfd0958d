#include "jit/base/file_io.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

#ifndef MFD_EXEC
constexpr unsigned kMemoryFileExec = 0x10;  // Linux 6.3; older headers do not define MFD_EXEC
#else
constexpr unsigned kMemoryFileExec = MFD_EXEC;
#endif

// Linux before 6.3 rejects the flag and does not need it.
int open_memory_file(const char* label, bool executable) {
  const int fd = memfd_create(label, MFD_CLOEXEC | (executable ? kMemoryFileExec : 0));
  return fd < 0 && executable && errno == EINVAL ? memfd_create(label, MFD_CLOEXEC) : fd;
}

// A write past the file size limit would raise SIGXFSZ, which ends the process.
bool within_file_limit(std::size_t size) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
}

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return ". Free disk space, or choose another disk";
    case EFBIG:
      return ". Raise the limit on file sizes (ulimit -f)";
    case EMFILE:
    case ENFILE:
      return ". Close files, or raise the limit (ulimit -n)";
    case EACCES:
    case EPERM:
    case EROFS:
      return ". Choose a folder that you may write to";
    default:
      return "";
  }
}

}  // namespace

std::string failure_advice(int error) { return std::string(std::strerror(error)) + advice(error); }

bool write_all(int fd, std::span<const std::byte> bytes) {
  if (!within_file_limit(bytes.size())) {
    errno = EFBIG;
    return false;
  }
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

std::optional<std::vector<std::byte>> read_all(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return {};
  return read_start(fd, static_cast<std::size_t>(status.st_size));
}

std::optional<std::vector<std::byte>> read_start(int fd, std::size_t most) {
  std::vector<std::byte> bytes(most);
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {};
    if (got == 0) break;  // the file is shorter, or it shrank: return the bytes that exist
    at += static_cast<std::size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

bool sync_file(int fd) {
  return ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS;
}

void sync_folder(const std::string& path) {
  const FileHandle folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

std::string file_stamp(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return {};
  return str_cat(s.st_dev, " ", s.st_ino, " ", s.st_size, " ", s.st_mtim.tv_sec, ".",
                 s.st_mtim.tv_nsec, " ", s.st_ctim.tv_sec, ".", s.st_ctim.tv_nsec);
}

void mark_used(const std::string& path) {
  const timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  ::utimensat(AT_FDCWD, path.c_str(), now, AT_SYMLINK_NOFOLLOW);
}

std::optional<std::uint64_t> random_number() {
  std::uint64_t number = 0;
  ssize_t got = 0;
  do {
    got = ::getrandom(&number, sizeof number, 0);
  } while (got < 0 && errno == EINTR);
  return got == sizeof number ? std::optional(number) : std::nullopt;
}

FileHandle memory_file(const char* label, std::span<const std::byte> content, bool executable) {
  FileHandle file(open_memory_file(label, executable));
  if (!file || !write_all(file.get(), content) || ::lseek(file.get(), 0, SEEK_SET) != 0)
    return FileHandle();
  return file;
}

void remove_folder(const std::string& path) noexcept {
  constexpr int kOpenFolders = 16;
  const auto remove_one = [](const char* one, const struct stat*, int, struct FTW*) {
    std::remove(one);
    return 0;
  };
  ::nftw(path.c_str(), remove_one, kOpenFolders, FTW_DEPTH | FTW_PHYS);
}

}  // namespace jitstep::jit
