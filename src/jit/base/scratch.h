// Short-lived private files.
#pragma once

#include <string>
#include <vector>

#include "jit/base/file_handle.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// Folders that may hold private temporary files, best first. Not all of them need exist.
std::vector<std::string> scratch_folders(const Settings& settings);

/// Removes from `parents` the PrivateFolders of this user's programs that were killed.
void sweep_scratch(const std::vector<std::string>& parents);

/// A new folder that only this user can enter, removed with all it holds when this object goes. A lock that the kernel
/// takes back from a killed process says that it is in use.
class PrivateFolder {
 public:
  /// Made in the first of `parents` that lets it be; an Error names them all if none does.
  explicit PrivateFolder(const std::vector<std::string>& parents);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  bool make_in(const std::string& parent);

  std::string path_;
  FileHandle lock_;
};

}  // namespace jitstep::jit
