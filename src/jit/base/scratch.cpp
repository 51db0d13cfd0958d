#include "jit/base/scratch.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

std::vector<std::string> scratch_folders(const Settings& settings) {
  std::vector<std::string> folders;
  // Memory-backed first, but what the user named goes before it.
  for (const std::string& folder : {settings.tmpdir, std::string("/dev/shm"), std::string("/tmp"),
                                    std::string("/var/tmp"), settings.cache_dir}) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

PrivateFolder::PrivateFolder(const std::vector<std::string>& parents) {
  std::string tried;
  for (const std::string& parent : parents) {
    std::string path = parent + "/jitstep-XXXXXX";
    if (mkdtemp(path.data())) {
      path_ = path;
      return;
    }
    tried += text(tried.empty() ? "" : ", ", parent, " (", std::strerror(errno), ")");
  }
  throw Error(
      text("no folder for temporary files: tried ", tried, "; set TMPDIR to a writable one"));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace jitstep::jit
