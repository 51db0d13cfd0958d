#include "jit/base/scratch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "jit/base/file_io.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName =
    "jitstep-work-XXXXXX";  // only folders of this name pattern have a lock
constexpr std::string_view kStart = kName.substr(0, kName.size() - 6);

FileHandle open_folder(const std::string& path) {
  return FileHandle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// True for a folder of this user that is older than a day. The lock alone is not enough: some network file systems keep
// locks local to one node, so another node may use a recent folder. A host name instead of the age would leave the
// folders of containers forever, because their host names never return.
bool is_left_over(const FileHandle& folder) {
  constexpr std::time_t kDay = 24 * 60 * 60;
  struct stat status {};
  return folder && ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid() &&
         status.st_mtime < std::time(nullptr) - kDay;
}

}  // namespace

std::vector<std::string> scratch_folders(const Settings& settings) {
  std::vector<std::string> folders;
  // The user's choice first, then memory-backed folders.
  for (const std::string& folder : {settings.tmpdir, std::string("/dev/shm"), std::string("/tmp"),
                                    std::string("/var/tmp"), settings.cache_dir}) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

void sweep_scratch(const std::vector<std::string>& parents) {
  for (const std::string& parent : parents) {
    std::error_code failure;
    fs::directory_iterator entry(parent, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      const std::string name = entry->path().filename().string();
      if (name.size() != kName.size() || !name.starts_with(kStart)) continue;
      const FileHandle folder = open_folder(entry->path().string());
      if (!is_left_over(folder) || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) continue;
      remove_folder(entry->path().string());
    }
  }
}

// On file systems without locks, flock() fails and the folder is never removed.
bool PrivateFolder::make_in(const std::string& parent) {
  path_ = str_cat(parent, "/", kName);
  if (!::mkdtemp(path_.data())) return false;
  lock_ = open_folder(path_);
  if (!lock_) return ::rmdir(path_.c_str()), false;
  while (::flock(lock_.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return true;
}

PrivateFolder::PrivateFolder(const std::vector<std::string>& parents) {
  std::string tried;
  for (const std::string& parent : parents) {
    if (make_in(parent)) return;
    tried += str_cat(tried.empty() ? "" : ", ", parent, " (", std::strerror(errno), ")");
  }
  throw Error(str_cat("cannot create a folder for temporary files: tried ", tried,
                      ". Set TMPDIR to a writable folder."));
}

PrivateFolder::~PrivateFolder() { remove_folder(path_); }

}  // namespace jitstep::jit
